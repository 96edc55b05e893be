#define _DEFAULT_SOURCE
#include "cli/rendering.h"

#include "cli/inputs.h"
#include "cli/report.h"

#include <string.h>
#include <time.h>

int rendering_open(const cli_args *args, const cera_vocab *vocab, cera_template **out)
{
    const char *given = args->option[OPT_CHAT_TEMPLATE].text;
    prompt text = { 0 };
    cera_host host;
    model_host(&host);
    cera_template_options options;
    cera_template_options_init(&options);
    options.host = &host;
    if (given != NULL && is_set(args, OPT_CHAT_TEMPLATE_FILE))
        return report_error(EXIT_USAGE, "two chat templates are given",
                            "one is given as an option, one as a file", "one of the two");
    if (is_set(args, OPT_CHAT_TEMPLATE_FILE)) {
        int code = prompt_from_file(args->option[OPT_CHAT_TEMPLATE_FILE].text, &text);
        if (code != EXIT_OK)
            return code;
        options.text = text.text;
        options.n_text = text.size;
    } else if (given != NULL && strchr(given, '{') != NULL) {
        options.text = given;
    } else {
        options.name = given;
    }
    cera_error err;
    cera_status status = cera_template_new(vocab, &options, out, &err);
    prompt_done(&text);
    if (status == CERA_OK)
        return EXIT_OK;
    if (err.status == CERA_E_ARG)
        return report_error(EXIT_USAGE, "cannot use the chat template", err.message, NULL);
    if (options.text != NULL && err.status == CERA_E_FORMAT) /* not the model's */
        return report_error(EXIT_MODEL, "cannot use the chat template", err.message,
                            "check the template");
    if (options.text == NULL && options.name == NULL && err.status == CERA_E_UNSUPPORTED)
        return report_error(EXIT_MODEL, "cannot use the chat template", err.message,
                            "--chat-template chatml");
    return report_failure(WHILE_OPENING, "cannot use the chat template", &err);
}

/* The date of the template's strftime_now. */
static cera_date today(void)
{
    time_t now = time(NULL);
    struct tm local;
    if (localtime_r(&now, &local) == NULL)
        return (cera_date){ 0 };
    return (cera_date){ local.tm_year + 1900, local.tm_mon + 1, local.tm_mday,
                        local.tm_hour,        local.tm_min,     local.tm_sec };
}

void rendering_options(cera_render_options *out)
{
    cera_render_options_init(out);
    out->date = today();
}

int rendering_failed(const cera_error *err)
{
    static const char what[] = "cannot render the conversation";
    if (err->status == CERA_E_ARG)
        return report_error(EXIT_USAGE, what, err->message, NULL);
    if (err->status == CERA_E_FORMAT) /* the template's own error, or its refusal */
        return report_error(EXIT_RUNTIME, what, err->message, NULL);
    return report_failure(WHILE_RUNNING, what, err);
}
