/* cera: the program. Parses, prepares the streams, runs one command. */
#include "cera.h"
#include "cli/cli.h"
#include "cli/help.h"
#include "cli/inputs.h"
#include "cli/interrupt.h"
#include "cli/out.h"
#include "cli/report.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int (*const run_command[CMD_COUNT])(const cli_args *args) = {
#define COMMAND(id, name, arguments, summary, description, example) [CMD_##id] = command_##id,
#include "cli/commands.def"
#undef COMMAND
};

static void end_without_memory(void)
{
    exit(report_error(EXIT_LIMIT, "out of memory", NULL, "a smaller model or a shorter text"));
}

/* A stream that is closed lends its number to the next file that is opened, and what is printed would
 * go into that. */
static void fill_streams(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        if (fcntl(fd, F_GETFD) == -1)
            (void)!open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
    }
}

/* Errors of the command line itself should have the asked form too, so look for it first. */
static report_settings settings_before_parsing(int argc, char **argv)
{
    const char *format = getenv("CERA_FORMAT");
    const char *color = getenv("CERA_COLOR");
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
        if (strncmp(argv[i], "--format=", 9) == 0)
            format = argv[i] + 9;
        else if (strcmp(argv[i], "--format") == 0 && i + 1 < argc)
            format = argv[i + 1];
        else if (strncmp(argv[i], "--color=", 8) == 0)
            color = argv[i] + 8;
        else if (strcmp(argv[i], "--color") == 0 && i + 1 < argc)
            color = argv[i + 1];
    }
    return (report_settings){
        .json = format != NULL && (strcmp(format, "json") == 0 || strcmp(format, "jsonl") == 0),
        .color = color_wanted(color, STDERR_FILENO),
    };
}

static int print_help(command_id command)
{
    bytes text = { 0 };
    help_text(command, &text);
    out_write(text.data, text.size);
    bytes_done(&text);
    return out_finish();
}

static int print_usage(void)
{
    report_error(EXIT_USAGE, "no command is named", NULL, command_table[CMD_RUN].example);
    if (report_is_json())
        return EXIT_USAGE;
    bytes text = { 0 };
    help_short(CMD_NONE, &text);
    fputs(text.data, stderr);
    bytes_done(&text);
    return EXIT_USAGE;
}

/* A log that was appended to the model, or a tuning in its place, would destroy it. */
static int check_written_files(const cli_args *args)
{
    static const option_id written[] = { OPT_LOG_FILE, OPT_TUNE };
    for (size_t i = 0; i < sizeof(written) / sizeof(written[0]); i++) {
        const option_value *option = &args->option[written[i]];
        if (option->text == NULL || !model_is_file(args, option->text))
            continue;
        bytes what = { 0 };
        bytes_printf(&what, "%s names the model: %s", option->typed, option->text);
        report_error(EXIT_USAGE, what.data, "it would be written into the model's file",
                     "another file");
        bytes_done(&what);
        return EXIT_USAGE;
    }
    return EXIT_OK;
}

/* Variables that other builds know; somebody who sets one should not wait for what it does. */
static void warn_of_variables(command_id command)
{
    static const char *const names[] = { "CERA_DECODE_THREADS", "CERA_PREFILL_THREADS",
                                         "CERA_PIN" };
    if (command == CMD_NONE || !option_applies(OPT_UBATCH_SIZE, command))
        return;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const char *value = getenv(names[i]);
        if (value == NULL || value[0] == '\0')
            continue;
        bytes text = { 0 };
        bytes_printf(&text, "%s has no effect in this build", names[i]);
        report_warning(text.data);
        bytes_done(&text);
    }
}

static int run(int argc, char **argv)
{
    report_settings settings = settings_before_parsing(argc, argv);
    report_start(&settings);
    cli_args args;
    int code = options_parse(argc, argv, &args);
    if (code != EXIT_OK) {
        options_done(&args);
        return code;
    }
    settings.level = is_set(&args, OPT_QUIET) ? -1 : args.option[OPT_VERBOSE].count;
    settings.log_file = args.option[OPT_LOG_FILE].text;
    settings.color = color_wanted(args.option[OPT_COLOR].text, STDERR_FILENO);
    code = check_written_files(&args);
    if (code != EXIT_OK) {
        options_done(&args);
        return code;
    }
    if (!report_start(&settings)) {
        options_done(&args);
        return EXIT_RUNTIME;
    }
    warn_of_variables(args.command);
    out_start(is_set(&args, OPT_UNBUFFERED));
    if (is_set(&args, OPT_HELP))
        code = print_help(args.command);
    else if (is_set(&args, OPT_VERSION))
        code = command_VERSION(&args);
    else if (args.command == CMD_NONE)
        code = print_usage();
    else
        code = run_command[args.command](&args);
    /* A failed write matters only when nothing worse has happened. */
    int written = out_finish();
    options_done(&args);
    return code != EXIT_OK ? code : written;
}

int main(int argc, char **argv)
{
    fill_streams();
    bytes_no_memory = end_without_memory;
    interrupt_start();
    int code = run(argc, argv);
    report_done();
    return code;
}
