#include "chat/tools.h"

#include "base/compiler.h"
#include "chat/literal.h"

/* Positions in text that cr_literal has written: strings in double quotes, ", " and ": ". */

static size_t skip_string(cr_str json, size_t at)
{
    for (at++; json.data[at] != '"'; at++)
        at += json.data[at] == '\\';
    return at + 1;
}

static size_t skip_value(cr_str json, size_t at)
{
    int depth = 0;
    do {
        const char c = json.data[at];
        if (c == '"') {
            at = skip_string(json, at);
        } else if (c == '[' || c == '{') {
            depth++;
            at++;
        } else if (c == ']' || c == '}') {
            depth--;
            at++;
        } else if (c == ',' || c == ':' || c == ' ') {
            at++;
        } else { /* a number or a word */
            while (at < json.size && strchr(",:]} ", json.data[at]) == NULL)
                at++;
        }
    } while (depth > 0);
    return at;
}

static const cr_str nothing = { "", 0 };

/* What follows an item: the next one, or the end. */
static size_t next_item(cr_str json, size_t at)
{
    return json.data[at] == ',' ? at + 2 : at + 1;
}

/* The value of a member of an object; `nothing` when there is none. */
static cr_str find(cr_str object, cr_str key)
{
    if (object.size < 3 || object.data[0] != '{')
        return nothing;
    for (size_t at = 1; at < object.size;) {
        const size_t end = skip_string(object, at), value = end + 2;
        const size_t after = skip_value(object, value);
        if (cr_json_string_is((cr_str){ object.data + at, end - at }, key))
            return (cr_str){ object.data + value, after - value };
        at = next_item(object, after);
    }
    return nothing;
}

static cr_str member(cr_str object, const char *key)
{
    return find(object, cr_str_from(key));
}

static cr_str function_of(cr_str tool)
{
    const cr_str inner = member(tool, "function");
    return inner.size > 0 && inner.data[0] == '{' ? inner : tool;
}

/* The tool at *at, a position in the list, and the position behind it; false behind the last. */
static bool next_tool(cr_str list, size_t *at, cr_str *tool)
{
    if (*at + 1 >= list.size)
        return false;
    const size_t after = skip_value(list, *at);
    *tool = function_of((cr_str){ list.data + *at, after - *at });
    *at = next_item(list, after);
    return true;
}

/* The tool of this name. */
static cr_str find_tool(const cr_tools *tools, cr_str name)
{
    const cr_str list = { tools->json.data, tools->json.size };
    cr_str tool;
    for (size_t at = 1; next_tool(list, &at, &tool);)
        if (cr_json_string_is(member(tool, "name"), name))
            return tool;
    return nothing;
}

/* A call has a name and nothing else to tell which tool is meant. A name is one text as JSON, too,
 * as cr_literal writes it. */
static cera_status check_names(cr_str list, cera_error *err)
{
    cr_str tool, other;
    size_t i = 0;
    for (size_t at = 1; next_tool(list, &at, &tool); i++) {
        const cr_str name = member(tool, "name");
        if (name.size < 3 || name.data[0] != '"')
            return cr_fail(err, CERA_E_ARG,
                           "tools: expected a name in each tool, found none in %zu", i);
        for (size_t k = 1; next_tool(list, &k, &other) && other.data != tool.data;) {
            const cr_str taken = member(other, "name");
            if (taken.size == name.size && memcmp(taken.data, name.data, name.size) == 0)
                return cr_fail(err, CERA_E_ARG,
                               "tools: expected one of each name, found two of %.*s",
                               (int)CR_MIN(name.size, (size_t)128), name.data);
        }
    }
    return CERA_OK;
}

cera_status cr_tools_init(cr_tools *tools, cr_str json, cr_host *host, cera_error *err)
{
    cr_buf_init(&tools->json, host, CR_MEM_OBJECT);
    if (json.size == 0)
        return CERA_OK;
    cr_literal v;
    const cr_literal_result r = cr_literal_read(&v, json, &tools->json);
    if (r == CR_LITERAL_NOMEM)
        return cr_fail_nomem(err, json.size, "the list of tools");
    if (r != CR_LITERAL_END)
        return cr_fail(err, CERA_E_ARG, "tools: expected a list as JSON: %s", v.bad);
    const cr_str list = { tools->json.data, tools->json.size };
    if (list.data[0] != '[')
        return cr_fail(err, CERA_E_ARG, "tools: expected a list, found something else");
    return check_names(list, err);
}

void cr_tools_done(cr_tools *tools)
{
    cr_buf_done(&tools->json);
}

bool cr_tools_has(const cr_tools *tools, cr_str name)
{
    return find_tool(tools, name).size > 0;
}

bool cr_tools_is_text(const cr_tools *tools, cr_str name, cr_str argument)
{
    const cr_str schema = member(find_tool(tools, name), "parameters");
    const cr_str property = find(member(schema, "properties"), argument);
    return cr_json_string_is(member(property, "type"), cr_str_from("string"));
}
