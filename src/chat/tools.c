#include "chat/tools.h"

enum { MAX_TEXT = 8 << 20, MAX_LEVELS = 256 };

const cr_json *cr_tool_function(const cr_json *tool)
{
    const cr_json *inner = cr_json_get(tool, "function");
    return cr_json_is(inner, CR_JSON_OBJECT) ? inner : tool;
}

cr_str cr_tool_name(const cr_json *tool)
{
    return cr_json_str(cr_json_get(cr_tool_function(tool), "name"));
}

static const cr_json *find_tool(const cr_tools *tools, cr_str name)
{
    const cr_json *tool = cr_json_first(tools->list, CR_JSON_ARRAY);
    while (tool != NULL && !cr_str_same(cr_tool_name(tool), name))
        tool = tool->next;
    return tool;
}

/* What a tool says of its arguments must be understood: what is not would be missing in calls. */
static cera_status check_members(cr_str name, const cr_json *object, cera_error *err)
{
    static const char *const known[] = { "name", "description", "strict", "type", "function" };
    for (const cr_json *k = object->first; k != NULL; k = k->next) {
        size_t i = 0;
        while (i < CR_COUNT(known) && !cr_str_is(k->key, known[i]))
            i++;
        if (i == CR_COUNT(known) && k->kind != CR_JSON_NULL)
            return cr_fail(err, CERA_E_ARG,
                           "tool %.*s: expected \"parameters\" with the schema of its arguments, "
                           "found \"%.*s\"",
                           (int)CR_MIN(name.size, (size_t)64), name.data,
                           (int)CR_MIN(k->key.size, (size_t)64), k->key.data);
    }
    return CERA_OK;
}

/* Whether a type, which may be a list or left out, can be this. */
static bool may_be(const cr_json *type, const char *wanted)
{
    const cr_json *one = cr_json_first(type, CR_JSON_ARRAY);
    while (one != NULL && !cr_str_is(cr_json_str(one), wanted))
        one = one->next;
    return type == NULL || one != NULL || cr_str_is(cr_json_str(type), wanted);
}

static cera_status check_tool(const cr_json *tool, cera_error *err)
{
    const cr_json *function = cr_tool_function(tool);
    const cr_json *parameters = cr_json_get(function, "parameters");
    const cr_str name = cr_tool_name(tool);
    const int n = (int)CR_MIN(name.size, (size_t)64);
    if (!may_be(cr_json_get(tool, "type"), "function"))
        return cr_fail(err, CERA_E_ARG, "tool %.*s: expected \"function\" as its type", n,
                       name.data);
    if (parameters == NULL || parameters->kind == CR_JSON_NULL) {
        CR_TRY(check_members(name, tool, err));
        return check_members(name, function, err);
    }
    if (parameters->kind != CR_JSON_OBJECT)
        return cr_fail(err, CERA_E_ARG, "tool %.*s: expected an object in parameters", n,
                       name.data);
    if (!may_be(cr_json_get(parameters, "type"), "object"))
        return cr_fail(err, CERA_E_ARG, "tool %.*s: expected \"object\" as the type of parameters",
                       n, name.data);
    return CERA_OK;
}

/* A call has a name and nothing else to tell which tool is meant. */
static cera_status check_tools(const cr_tools *tools, cera_error *err)
{
    for (const cr_json *tool = tools->list->first; tool != NULL; tool = tool->next) {
        const cr_str name = cr_tool_name(tool);
        if (name.size == 0)
            return cr_fail(err, CERA_E_ARG, "tools: expected a name in each tool, found none in %u",
                           tool->index);
        if (find_tool(tools, name) != tool)
            return cr_fail(err, CERA_E_ARG,
                           "tools: expected one of each name, found two of \"%.*s\"",
                           (int)CR_MIN(name.size, (size_t)128), name.data);
        CR_TRY(check_tool(tool, err));
    }
    return CERA_OK;
}

cera_status cr_tools_init(cr_tools *tools, cr_str json, cr_host *host, cera_error *err)
{
    static const cr_json_rules rules = { .max_bytes = MAX_TEXT,
                                         .max_values = MAX_TEXT,
                                         .max_depth = MAX_LEVELS };
    tools->list = NULL;
    cr_arena_init(&tools->arena, host, CR_MEM_OBJECT);
    if (json.size == 0)
        return CERA_OK;
    const char *copy = cr_arena_copy(&tools->arena, json.data, json.size);
    if (copy == NULL)
        return cr_fail_nomem(err, json.size, "the list of tools");
    cera_error inner = { 0 };
    const cera_status status = cr_json_parse((cr_str){ copy, json.size }, "tools", &rules,
                                             &tools->arena, &tools->list, &inner);
    if (status != CERA_OK) /* malformed text is an argument of the caller's */
        return cr_fail(err, status == CERA_E_FORMAT ? CERA_E_ARG : status, "%s", inner.message);
    if (tools->list->kind != CR_JSON_ARRAY)
        return cr_fail(err, CERA_E_ARG, "tools: expected a list, found something else");
    return check_tools(tools, err);
}

void cr_tools_done(cr_tools *tools)
{
    cr_arena_done(&tools->arena);
}

bool cr_tools_has(const cr_tools *tools, cr_str name)
{
    return name.size > 0 && find_tool(tools, name) != NULL;
}

bool cr_tools_is_text(const cr_tools *tools, cr_str name, cr_str argument)
{
    const cr_json *schema = cr_json_get(cr_tool_function(find_tool(tools, name)), "parameters");
    const cr_json *property = cr_json_get_str(cr_json_get(schema, "properties"), argument);
    return cr_str_is(cr_json_str(cr_json_get(property, "type")), "string");
}
