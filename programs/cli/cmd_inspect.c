/* inspect: metadata and tensors of a file. Everything shown comes from a stranger's file, so the
 * text form escapes it and the JSON form repairs it. */
#include "cera.h"
#include "cli/cli.h"
#include "cli/cpu_text.h"
#include "cli/inputs.h"
#include "cli/out.h"
#include "cli/report.h"
#include "common/bytes.h"
#include "common/number.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAX_SHOWN = 100, /* bytes of a string in the text form */
    MAX_ARRAY = 64,  /* elements of an array in the JSON form */
};

static const char *type_name(cera_value_type type)
{
    static const char *const names[] = { "u8",   "i8",     "u16",   "i16", "u32", "i32", "f32",
                                         "bool", "string", "array", "u64", "i64", "f64" };
    return (size_t)type < sizeof(names) / sizeof(names[0]) ? names[type] : "unknown";
}

static bool is_unsigned(cera_value_type type)
{
    return type == CERA_VALUE_U8 || type == CERA_VALUE_U16 || type == CERA_VALUE_U32 ||
           type == CERA_VALUE_U64;
}

static bool find_string(const cera_file *file, const char *key, cera_value *out)
{
    return cera_file_find(file, key, out) && out->type == CERA_VALUE_STRING;
}

/* The context length under the key of the file's own architecture; -1 when there is none. */
static int64_t context_length(const cera_file *file)
{
    cera_value arch, value;
    if (!find_string(file, "general.architecture", &arch) || arch.as.s.size > 100)
        return -1;
    char key[160];
    snprintf(key, sizeof(key), "%.*s.context_length", (int)arch.as.s.size, arch.as.s.text);
    if (!cera_file_find(file, key, &value))
        return -1;
    if (is_unsigned(value.type))
        return value.as.u <= INT64_MAX ? (int64_t)value.as.u : -1;
    bool is_signed = value.type == CERA_VALUE_I8 || value.type == CERA_VALUE_I16 ||
                     value.type == CERA_VALUE_I32 || value.type == CERA_VALUE_I64;
    return is_signed ? value.as.i : -1;
}

/* ---- text -------------------------------------------------------------------------------- */

/* "..." cut before the character that crosses MAX_SHOWN bytes. */
static void append_string(bytes *out, const char *text, size_t size)
{
    size_t shown = 0, chars = 0;
    bool cut = false;
    for (size_t i = 0; i < size; chars++) {
        size_t n = bytes_utf8(text + i, size - i);
        i += n > 0 ? n : 1;
        cut |= i > MAX_SHOWN;
        if (!cut)
            shown = i;
    }
    bytes_text(out, "\"");
    bytes_append_escaped(out, text, shown, true);
    if (cut)
        bytes_printf(out, "...\" (%zu chars)", chars);
    else
        bytes_text(out, "\"");
}

static void append_value(bytes *out, const cera_value *value)
{
    char number[NUMBER_ROOM];
    switch (value->type) {
    case CERA_VALUE_STRING:
        append_string(out, value->as.s.text, value->as.s.size);
        break;
    case CERA_VALUE_ARRAY:
        bytes_printf(out, "[%s; %llu]", type_name(value->element),
                     (unsigned long long)value->count);
        break;
    case CERA_VALUE_BOOL:
        bytes_text(out, value->as.b ? "true" : "false");
        break;
    case CERA_VALUE_F32:
        number_format_float((float)value->as.f, number);
        bytes_text(out, number);
        break;
    case CERA_VALUE_F64:
        bytes_printf(out, "%.17g", value->as.f);
        break;
    default:
        if (is_unsigned(value->type))
            bytes_printf(out, "%llu", (unsigned long long)value->as.u);
        else
            bytes_printf(out, "%lld", (long long)value->as.i);
    }
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Sorts the lines and moves them to the end of `out`. */
static void append_sorted(bytes *out, char **lines, size_t n)
{
    qsort(lines, n, sizeof(char *), by_text);
    for (size_t i = 0; i < n; i++) {
        bytes_text(out, lines[i]);
        free(lines[i]);
    }
    free(lines);
}

static bool key_is(const cera_file *file, const char *key, const char *text)
{
    cera_value value;
    return cera_file_find(file, key, &value) && value.type == CERA_VALUE_STRING &&
           value.as.s.size == strlen(text) && memcmp(value.as.s.text, text, value.as.s.size) == 0;
}

/* What kind of file it is, when it is no model. */
static const char *kind_of(const cera_file *file)
{
    if (key_is(file, "general.architecture", "controlvector"))
        return "control vector (--control-vector)";
    bool is_lora = key_is(file, "general.type", "adapter") && key_is(file, "adapter.type", "lora");
    return is_lora ? "LoRA adapter (--lora)" : NULL;
}

static void print_text(const cli_args *args, const cera_file *file)
{
    cera_file_info info;
    cera_file_get_info(file, &info);
    bytes text = { 0 };
    bytes_printf(&text,
                 "=== GGUF File ===\nTensors: %llu, Metadata keys: %llu\nData offset: %llu\n",
                 (unsigned long long)info.n_tensors, (unsigned long long)info.n_keys,
                 (unsigned long long)info.data_offset);
    if (kind_of(file) != NULL)
        bytes_printf(&text, "Kind: %s\n", kind_of(file));
    if (info.n_parts > 1)
        bytes_printf(&text, "Files: %u\n", (unsigned)info.n_parts);

    bytes_text(&text, "\n--- Metadata ---\n");
    char **lines = bytes_alloc(info.n_keys, sizeof(char *));
    for (size_t i = 0; i < info.n_keys; i++) {
        cera_value value;
        const char *key = cera_file_key(file, i, &value);
        bytes line = { 0 };
        bytes_text(&line, "  ");
        bytes_append_escaped(&line, key, strlen(key), false);
        bytes_text(&line, " = ");
        append_value(&line, &value);
        bytes_text(&line, "\n");
        lines[i] = line.data;
    }
    append_sorted(&text, lines, info.n_keys);

    bytes_text(&text, "\n--- Tensors ---\n");
    lines = bytes_alloc(info.n_tensors, sizeof(char *));
    for (size_t i = 0; i < info.n_tensors; i++) {
        cera_file_tensor tensor;
        cera_file_get_tensor(file, i, &tensor);
        bytes line = { 0 };
        bytes_text(&line, "  ");
        bytes_append_escaped(&line, tensor.name, strlen(tensor.name), false);
        bytes_text(&line, " | [");
        for (int d = 0; d < tensor.n_dims; d++)
            bytes_printf(&line, "%s%llu", d > 0 ? ", " : "", (unsigned long long)tensor.shape[d]);
        bytes_printf(&line, "] | %s | %.2f MB\n", tensor.type, (double)tensor.size / 1048576.0);
        lines[i] = line.data;
    }
    append_sorted(&text, lines, info.n_tensors);

    bytes_text(&text, "\n=== CPU Backend ===\n");
    cera_cpu_info cpu;
    cera_cpu_get_info(NULL, &cpu);
    cpu_text(args, &cpu, &text);
    out_write(text.data, text.size);
    bytes_done(&text);
}

/* ---- JSON -------------------------------------------------------------------------------- */

static json_t *integer_to_json(uint64_t value)
{
    if (value <= INT64_MAX)
        return json_integer((json_int_t)value);
    char text[24];
    snprintf(text, sizeof(text), "%llu", (unsigned long long)value);
    return json_string(text);
}

static json_t *scalar_to_json(const cera_value *value)
{
    switch (value->type) {
    case CERA_VALUE_STRING:
        return json_text(value->as.s.text, value->as.s.size);
    case CERA_VALUE_BOOL:
        return json_boolean(value->as.b);
    case CERA_VALUE_F32:
    case CERA_VALUE_F64:
        return json_number(value->as.f);
    default:
        return is_unsigned(value->type) ? integer_to_json(value->as.u) : json_integer(value->as.i);
    }
}

static json_t *value_to_json(const cera_file *file, const char *key, const cera_value *value)
{
    if (value->type != CERA_VALUE_ARRAY)
        return scalar_to_json(value);
    if (value->count > MAX_ARRAY)
        return json_pack("{s:s, s:o}", "type", type_name(value->element), "count",
                         integer_to_json(value->count));
    json_t *list = json_array();
    for (uint64_t i = 0; i < value->count; i++) {
        cera_value element;
        if (cera_file_element(file, key, i, &element))
            json_array_append_new(list, scalar_to_json(&element));
    }
    return list;
}

static json_t *tensors_to_json(const cera_file *file, uint64_t n_tensors)
{
    json_t *list = json_array();
    for (size_t i = 0; i < n_tensors; i++) {
        cera_file_tensor tensor;
        cera_file_get_tensor(file, i, &tensor);
        json_t *shape = json_array();
        for (int d = 0; d < tensor.n_dims; d++)
            json_array_append_new(shape, integer_to_json(tensor.shape[d]));
        json_array_append_new(
            list, json_pack("{s:o, s:s, s:o, s:I, s:o, s:o}", "name",
                            json_text(tensor.name, strlen(tensor.name)), "type", tensor.type,
                            "shape", shape, "part", (json_int_t)tensor.part, "offset",
                            integer_to_json(tensor.offset), "size", integer_to_json(tensor.size)));
    }
    return list;
}

static void print_json(const cera_file *file)
{
    cera_file_info info;
    cera_file_get_info(file, &info);
    json_t *meta = json_object();
    for (size_t i = 0; i < info.n_keys; i++) {
        cera_value value;
        const char *key = cera_file_key(file, i, &value);
        bytes clean = { 0 };
        bytes_append_repaired(&clean, key, strlen(key));
        json_object_set_new(meta, clean.data, value_to_json(file, key, &value));
        bytes_done(&clean);
    }
    cera_value value;
    json_t *arch =
        find_string(file, "general.architecture", &value) ? scalar_to_json(&value) : json_null();
    json_t *template =
        find_string(file, "tokenizer.chat_template", &value) ? scalar_to_json(&value) : json_null();
    int64_t context = context_length(file);
    out_json(json_pack("{s:s, s:o, s:o, s:o, s:I, s:o, s:o, s:o, s:o, s:o}", "schema",
                       "cera.inspect/1", "arch", arch, "params", integer_to_json(info.n_params),
                       "size", integer_to_json(info.size), "parts", (json_int_t)info.n_parts,
                       "context_length", context >= 0 ? json_integer(context) : json_null(),
                       "quant", json_string(info.quant), "chat_template", template, "tensors",
                       tensors_to_json(file, info.n_tensors), "meta", meta));
}

int command_INSPECT(const cli_args *args)
{
    const char *path;
    int code = model_path(args, &path);
    if (code != EXIT_OK)
        return code;
    cera_host host;
    model_host(&host);
    cera_source source = model_source(args, path);
    cera_file *file = NULL;
    cera_error err;
    if (cera_file_open(&source, &host, &file, &err) != CERA_OK)
        return model_failed(path, &err);
    if (wants_json(args))
        print_json(file);
    else
        print_text(args, file);
    cera_file_close(file);
    return EXIT_OK;
}
