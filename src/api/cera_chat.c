/* cera_chat_parser: a reply taken apart. */
#include "api/check.h"
#include "api/objects.h"
#include "base/text.h"
#include "chat/reply.h"

struct cera_chat_parser {
    cr_host own_host;
    cr_reply reply;
};

void cera_chat_parser_options_init(cera_chat_parser_options *options)
{
    *options = (cera_chat_parser_options){ .size = sizeof *options };
}

cera_status cr_check_format(const char *name, const cera_template *tmpl, const char *arch,
                            const cr_chat_format **out, cera_error *err)
{
    if (name != NULL) {
        *out = cr_chat_format_find(name);
        return *out != NULL ? CERA_OK
                            : cr_fail(err, CERA_E_ARG, "format \"%.64s\": expected one of%s", name,
                                      cr_chat_format_names);
    }
    cr_str text = { "", 0 };
    if (tmpl != NULL)
        text.data = cera_template_source(tmpl, true, &text.size);
    *out = cr_chat_format_detect(text, arch);
    return CERA_OK;
}

cera_status cera_chat_parser_new(const cera_chat_parser_options *options,
                                 const cera_chat_sink *sink, cera_chat_parser **out,
                                 cera_error *err)
{
    cera_chat_parser_options defaults;
    cera_chat_parser_options_init(&defaults);
    if (options == NULL)
        options = &defaults;
    if (sink == NULL || out == NULL)
        return cr_fail(err, CERA_E_ARG,
                       "chat parser: expected a sink and a place for it, found NULL");
    CR_TRY(cr_check_size(options->size, sizeof *options, err));
    const cr_chat_format *format;
    CR_TRY(cr_check_format(options->format, options->tmpl, options->arch, &format, err));
    cr_host first; /* for the object itself, whose own host does not exist yet */
    CR_TRY(cr_host_set(&first, options->host, err));
    cera_chat_parser *parser = cr_alloc_zero(&first, CR_MEM_OBJECT, sizeof *parser);
    if (parser == NULL)
        return cr_fail_nomem(err, sizeof *parser, "the chat parser");
    parser->own_host = first; /* with its bill, which has the object itself on it */
    cr_reply *reply = &parser->reply;
    reply->host = &parser->own_host;
    reply->format = format;
    reply->has_reasoning = !options->no_reasoning;
    reply->sink = *sink;
    cr_reply_init(reply,
                  (cr_str){ options->prompt, options->prompt != NULL ? options->n_prompt : 0 });
    const cera_status status = cr_tools_init(
        &reply->tools, cr_str_from(options->tools != NULL ? options->tools : ""), reply->host, err);
    if (status != CERA_OK) {
        cera_chat_parser_free(parser);
        return status;
    }
    *out = parser;
    return CERA_OK;
}

void cera_chat_parser_free(cera_chat_parser *parser)
{
    if (parser == NULL)
        return;
    cr_reply_done(&parser->reply);
    cr_host host = parser->own_host; /* the object cannot be freed through what is inside it */
    cr_free(&host, CR_MEM_OBJECT, parser, sizeof *parser);
}

const char *cera_chat_parser_format(const cera_chat_parser *parser)
{
    return parser != NULL ? parser->reply.format->name : NULL;
}

const char *cera_chat_format_name(size_t i)
{
    const cr_chat_format *format = cr_chat_format_at(i);
    return format != NULL ? format->name : NULL;
}

const char *cera_chat_format_mark(const char *format, size_t i)
{
    const cr_chat_format *found = format != NULL ? cr_chat_format_find(format) : NULL;
    return found != NULL ? cr_chat_format_opener(found, i) : NULL;
}

bool cera_chat_parser_is_reasoning(const cera_chat_parser *parser)
{
    return parser != NULL && cr_reply_is_reasoning(&parser->reply);
}

cera_status cera_chat_parser_push(cera_chat_parser *parser, const char *text, size_t n,
                                  cera_error *err)
{
    if (parser == NULL || (text == NULL && n > 0))
        return cr_fail(err, CERA_E_ARG, "push: expected a parser and text, found NULL");
    return cr_reply_push(&parser->reply, text, n, err);
}

cera_status cera_chat_parser_finish(cera_chat_parser *parser, cera_error *err)
{
    if (parser == NULL)
        return cr_fail(err, CERA_E_ARG, "finish: expected a parser, found NULL");
    return cr_reply_finish(&parser->reply, err);
}
