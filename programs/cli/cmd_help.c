/* help, version, completion: what the program knows about itself. */
#include "cera.h"
#include "cli/cli.h"
#include "cli/help.h"
#include "cli/inputs.h"
#include "cli/out.h"
#include "cli/report.h"

#include <string.h>

static int reject_arguments(const cli_args *args, size_t most)
{
    if (args->n_positional <= most)
        return EXIT_OK;
    bytes what = { 0 };
    bytes_printf(&what, "unexpected argument %s", args->positional[most]);
    report_error(EXIT_USAGE, what.data, NULL, command_table[args->command].example);
    bytes_done(&what);
    return EXIT_USAGE;
}

int command_HELP(const cli_args *args)
{
    int code = reject_arguments(args, is_set(args, OPT_MAN) ? 0 : 1);
    if (code != EXIT_OK)
        return code;
    command_id command = CMD_NONE;
    for (int i = 0; i < CMD_COUNT && args->n_positional == 1; i++) {
        if (strcmp(args->positional[0], command_table[i].name) == 0)
            command = (command_id)i;
    }
    bytes text = { 0 };
    if (args->n_positional == 1 && command == CMD_NONE) {
        const char *nearest = nearest_command(args->positional[0]);
        bytes hint = { 0 };
        bytes_printf(&text, "unknown command %s", args->positional[0]);
        bytes_printf(&hint, nearest != NULL ? "did you mean %s?" : "cera help",
                     nearest != NULL ? nearest : "");
        code = report_error(EXIT_USAGE, text.data, "cera has no such command", hint.data);
        bytes_done(&hint);
    } else {
        if (is_set(args, OPT_MAN))
            help_manual(&text);
        else
            help_text(command, &text);
        out_write(text.data, text.size);
    }
    bytes_done(&text);
    return code;
}

int command_COMPLETION(const cli_args *args)
{
    int code = reject_arguments(args, 1);
    if (code != EXIT_OK)
        return code;
    bytes text = { 0 };
    if (args->n_positional == 1 && help_completion(args->positional[0], &text)) {
        out_write(text.data, text.size);
    } else {
        bytes_text(&text, "expected bash, zsh or fish");
        if (args->n_positional == 1)
            bytes_printf(&text, ", found %s", args->positional[0]);
        code = report_error(EXIT_USAGE, "no shell is named that cera knows", text.data,
                            "cera completion bash");
    }
    bytes_done(&text);
    return code;
}

/* Whether the library was built with the model that builtin:tiny names. */
static bool has_builtin_model(void)
{
    cera_source source = { .path = "builtin:tiny" };
    cera_file *file = NULL;
    if (cera_file_open(&source, NULL, &file, NULL) != CERA_OK)
        return false;
    cera_file_close(file);
    return true;
}

int command_VERSION(const cli_args *args)
{
    int code = args->command == CMD_VERSION ? reject_arguments(args, 0) : EXIT_OK;
    if (code != EXIT_OK)
        return code;
    bool features = is_set(args, OPT_FEATURES);
    bool builtin = features && has_builtin_model();
#ifdef CERA_WITH_LIBEDIT
    const bool libedit = true;
#else
    const bool libedit = false;
#endif
    cera_cpu_info cpu = { 0 };
    if (features)
        cera_cpu_get_info(NULL, &cpu);
    if (wants_envelope(args)) {
        json_t *root =
            json_pack("{s:s, s:s}", "schema", "cera.version/1", "version", cera_version());
        if (features)
            json_object_set_new(root, "features",
                                json_pack("{s:b, s:s, s:s?, s:s, s:b}", "builtin_model", builtin,
                                          "cpu_tier", cpu.tier, "blas", cpu.blas, "jansson",
                                          JANSSON_VERSION, "libedit", libedit));
        out_json(root);
        return EXIT_OK;
    }
    bytes text = { 0 };
    bytes_printf(&text, "cera %s\n", cera_version());
    if (features)
        bytes_printf(&text, "builtin model: %s\ncpu tier: %s\nblas: %s\njansson: %s\nlibedit: %s\n",
                     builtin ? "yes" : "no", cpu.tier, cpu.blas ? cpu.blas : "no", JANSSON_VERSION,
                     libedit ? "yes" : "no");
    out_write(text.data, text.size);
    bytes_done(&text);
    return EXIT_OK;
}
