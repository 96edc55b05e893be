/* A template's source to tokens, with all of its white space rules:
 *
 *     text before a tag      {%-  loses its blanks at the end
 *                            {%   loses the blanks of the tag's own line, when nothing else is there
 *                            {%+  {{  nothing
 *     text behind a tag      -%}  loses its blanks at the beginning
 *                            %}   loses one newline
 *                            +%}  }}  nothing
 *
 * Comments count as blocks; one newline at the end of the source is dropped, and every line end is
 * a newline. */
#include "template/syntax.h"

typedef struct lexer {
    cr_str source; /* with its newlines made equal */
    size_t at;
    int line;
    bool line_starting; /* what was read last ended in a newline */
    cr_arena *arena;
    cr_token *tokens;
    size_t n, room;
    char open[CR_TEMPLATE_MAX_NESTING]; /* brackets that are open inside the tag */
    int n_open;
    cera_error *err;
} lexer;

static cera_status fail_at(lexer *x, int line, const char *what)
{
    return cr_fail(x->err, CERA_E_FORMAT, "template: line %d: %s", line, what);
}

static cera_status push(lexer *x, cr_token token)
{
    if (x->n == x->room) {
        size_t room = x->room == 0 ? 256 : x->room * 2;
        cr_token *larger = cr_arena_array(x->arena, room, sizeof *larger);
        if (larger == NULL)
            return cr_fail_nomem(x->err, room * sizeof *larger, "the template");
        if (x->n > 0)
            memcpy(larger, x->tokens, x->n * sizeof *larger);
        x->tokens = larger;
        x->room = room;
    }
    x->tokens[x->n++] = token;
    return CERA_OK;
}

/* Whether the source goes on with a text at byte i. */
static bool has(const lexer *x, size_t i, const char *text)
{
    size_t n = strlen(text);
    return i <= x->source.size && x->source.size - i >= n &&
           memcmp(x->source.data + i, text, n) == 0;
}

/* The byte at i, or 0 behind the end. */
static char at(const lexer *x, size_t i)
{
    return i < x->source.size ? x->source.data[i] : '\0';
}

static size_t skip_blanks(const lexer *x, size_t i)
{
    uint32_t code;
    while (i < x->source.size) {
        size_t length = cr_utf8_decode(x->source.data + i, x->source.size - i, &code);
        if (length == 0 || !cr_char_is_blank(code))
            break;
        i += length;
    }
    return i;
}

/* Moves to byte i, counting lines. */
static void move_to(lexer *x, size_t i)
{
    for (size_t j = x->at; j < i; j++)
        x->line += x->source.data[j] == '\n';
    if (i > x->at)
        x->line_starting = x->source.data[i - 1] == '\n';
    x->at = i;
}

/* ---- text between tags --------------------------------------------------------------------- */

/* The text [from, to) before a tag with this sign. */
static cera_status push_data(lexer *x, size_t from, size_t to, char sign, bool is_print)
{
    cr_tstr text = { .data = x->source.data + from, .size = to - from };
    if (sign == '-') {
        text = cr_tstr_strip(&text, NULL, false, true);
    } else if (sign != '+' && !is_print) {
        size_t line = text.size;
        while (line > 0 && text.data[line - 1] != '\n')
            line--;
        cr_tstr own_line = cr_tstr_part(&text, line, text.size);
        if ((line > 0 || x->line_starting) && cr_tstr_strip(&own_line, NULL, true, false).size == 0)
            text.size = line;
    }
    if (text.size == 0)
        return CERA_OK;
    return push(
        x, (cr_token){ .type = CR_TOK_DATA, .line = x->line, .text = { text.data, text.size } });
}

/* The end of a block tag or comment at byte i, whose closing bracket is `end`: where the text goes
 * on, or 0 when there is none here. */
static size_t tag_end(const lexer *x, size_t i, const char *end)
{
    size_t n = strlen(end);
    char sign = at(x, i);
    if (sign == '+' && has(x, i + 1, end))
        return i + 1 + n;
    if (sign == '-' && has(x, i + 1, end))
        return skip_blanks(x, i + 1 + n);
    if (has(x, i, end))
        return i + n + (at(x, i + n) == '\n' ? 1 : 0);
    return 0;
}

static bool is_sign(char c)
{
    return c == '-' || c == '+';
}

/* {% raw %} at byte i: where its text begins, or 0. */
static size_t raw_begin(const lexer *x, size_t i)
{
    i += is_sign(at(x, i + 2)) ? 3 : 2;
    i = skip_blanks(x, i);
    if (!has(x, i, "raw"))
        return 0;
    i = skip_blanks(x, i + 3);
    if (has(x, i, "-%}"))
        return skip_blanks(x, i + 3);
    return has(x, i, "%}") ? i + 2 : 0;
}

static cera_status lex_raw(lexer *x, size_t begin)
{
    int line = x->line;
    move_to(x, begin);
    for (size_t i = begin; i < x->source.size; i++) {
        if (!has(x, i, "{%"))
            continue;
        char sign = is_sign(at(x, i + 2)) ? at(x, i + 2) : '\0';
        size_t j = skip_blanks(x, i + (sign != '\0' ? 3 : 2));
        if (!has(x, j, "endraw"))
            continue;
        size_t end = tag_end(x, skip_blanks(x, j + 6), "%}");
        if (end == 0)
            continue;
        CR_TRY(push_data(x, begin, i, sign, false));
        move_to(x, end);
        return CERA_OK;
    }
    if (begin >= x->source.size) /* nothing is behind it: Jinja2 lets that pass */
        return CERA_OK;
    return fail_at(x, line, "{% raw %}: expected {% endraw %}, found the end");
}

static cera_status lex_comment(lexer *x)
{
    int line = x->line;
    for (size_t i = x->at + 2; i < x->source.size; i++) {
        size_t end = tag_end(x, i, "#}");
        if (end > 0) {
            move_to(x, end);
            return CERA_OK;
        }
    }
    return fail_at(x, line, "comment: expected #}, found the end");
}

/* ---- inside of tags ------------------------------------------------------------------------ */

/* In the order of their tokens, from CR_TOK_FLOORDIV on. */
static const char *const operators[] = { "//", "**", "==", "!=", ">=", "<=", "+", "-", "/",
                                         "*",  "%",  "~",  "[",  "]",  "(",  ")", "{", "}",
                                         ">",  "<",  "=",  ".",  ":",  "|",  ",", ";" };

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_name_byte(char c)
{
    return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
           (unsigned char)c >= 0x80;
}

static int digit_value(char c)
{
    if (is_digit(c))
        return c - '0';
    char lower = (char)(c | 0x20);
    return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : 99;
}

/* Digits with single underscores between them: where they end. */
static size_t digits_end(const lexer *x, size_t i, int base)
{
    while (digit_value(at(x, i)) < base || (at(x, i) == '_' && digit_value(at(x, i + 1)) < base))
        i++;
    return i;
}

/* A number at x->at, as Python writes it. */
static cera_status lex_number(lexer *x)
{
    size_t i = x->at, end = digits_end(x, i, 10);
    bool after_dot = i > 0 && x->source.data[i - 1] == '.';
    bool is_real = false;
    if (!after_dot && at(x, end) == '.' && is_digit(at(x, end + 1))) {
        is_real = true;
        end = digits_end(x, end + 1, 10);
    }
    if (!after_dot && (at(x, end) | 0x20) == 'e') {
        size_t exponent = end + 1 + (is_sign(at(x, end + 1)) ? 1 : 0);
        if (is_digit(at(x, exponent))) {
            is_real = true;
            end = digits_end(x, exponent, 10);
        }
    }
    cr_token token = { .type = is_real ? CR_TOK_FLOAT : CR_TOK_INT, .line = x->line };
    int base = 10;
    if (!is_real && at(x, i) == '0') {
        char letter = (char)(at(x, i + 1) | 0x20);
        base = letter == 'x' ? 16 : letter == 'o' ? 8 : letter == 'b' ? 2 : 10;
        size_t digits = i + 2 + (at(x, i + 2) == '_' ? 1 : 0);
        if (base != 10 && digit_value(at(x, digits)) < base) {
            i = digits;
            end = digits_end(x, i, base);
        } else {
            base = 10;
            while (at(x, i) == '0' || (at(x, i) == '_' && at(x, i + 1) == '0'))
                i++;
            end = i; /* zeros only: 007 is three tokens */
        }
    }
    char text[400];
    size_t n = 0;
    uint64_t value = 0;
    for (; i < end; i++) {
        char c = x->source.data[i];
        if (c == '_')
            continue;
        if (n == sizeof text)
            return fail_at(x, x->line, "number: too many digits");
        text[n++] = c;
        if (is_real)
            continue;
        if (value > (INT64_MAX - (uint64_t)digit_value(c)) / (uint64_t)base)
            return fail_at(x, x->line, "integer: expected at most 9223372036854775807");
        value = value * (uint64_t)base + (uint64_t)digit_value(c);
    }
    token.integer = (int64_t)value;
    if (is_real && !cr_parse_f64((cr_str){ text, n }, &token.real))
        return fail_at(x, x->line, "number: not a number");
    move_to(x, end);
    return push(x, token);
}

/* The character that an escape stands for: bytes read behind the backslash, 0 when it is none. */
static size_t read_escape(const char *text, size_t n, uint32_t *code)
{
    static const char letters[] = "\\'\"abfnrtv", values[] = "\\'\"\a\b\f\n\r\t\v";
    const char *found = memchr(letters, text[0], sizeof letters - 1);
    if (found != NULL) {
        *code = (unsigned char)values[found - letters];
        return 1;
    }
    size_t i = 1, width = text[0] == 'x' ? 2 : text[0] == 'u' ? 4 : text[0] == 'U' ? 8 : 0;
    *code = 0;
    if (width > 0) {
        for (; i <= width && i < n && digit_value(text[i]) < 16; i++)
            *code = *code * 16 + (uint32_t)digit_value(text[i]);
        return i == width + 1 ? i : 0;
    }
    for (i = 0; i < 3 && i < n && digit_value(text[i]) < 8; i++)
        *code = *code * 8 + (uint32_t)digit_value(text[i]);
    return i;
}

static cera_status lex_string(lexer *x)
{
    char quote = x->source.data[x->at];
    size_t begin = x->at + 1, end = begin;
    while (end < x->source.size && x->source.data[end] != quote)
        end += x->source.data[end] == '\\' ? 2 : 1;
    if (end >= x->source.size)
        return fail_at(x, x->line, "string: expected its closing quote, found the end");
    char *text = cr_arena_alloc(x->arena, 2 * (end - begin) + 1);
    if (text == NULL)
        return cr_fail_nomem(x->err, end - begin, "the template");
    size_t n = 0;
    for (size_t i = begin; i < end; i++) {
        char c = x->source.data[i];
        if (c != '\\') {
            text[n++] = c;
            continue;
        }
        if (at(x, i + 1) == '\n') { /* the line goes on */
            i++;
            continue;
        }
        uint32_t code;
        size_t length = read_escape(x->source.data + i + 1, end - i - 1, &code);
        bool is_coded = at(x, i + 1) == 'x' || (at(x, i + 1) | 0x20) == 'u';
        if ((is_coded && length == 0) || at(x, i + 1) == 'N')
            return fail_at(x, x->line, "string: an escape that is not complete or not known");
        if (length == 0) {
            text[n++] = c; /* the backslash stands for itself */
            continue;
        }
        size_t coded = code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff)
                           ? 0
                           : cr_utf8_encode(code, text + n);
        if (coded == 0)
            return fail_at(x, x->line, "string: an escape that is no character");
        n += coded;
        i += length;
    }
    cr_token token = { .type = CR_TOK_STRING, .line = x->line, .text = { text, n } };
    move_to(x, end + 1);
    return push(x, token);
}

static cera_status lex_operator(lexer *x)
{
    static const char opening[] = "{([", closing[] = "})]";
    for (size_t i = 0; i < CR_COUNT(operators); i++) {
        if (!has(x, x->at, operators[i]))
            continue;
        char c = operators[i][0];
        const char *open = strchr(opening, c), *close = strchr(closing, c);
        if (open != NULL && x->n_open == CR_TEMPLATE_MAX_NESTING)
            return fail_at(x, x->line, "brackets are nested too deeply");
        if (open != NULL)
            x->open[x->n_open++] = closing[open - opening];
        else if (close != NULL && (x->n_open == 0 || x->open[--x->n_open] != c))
            return fail_at(x, x->line, "a closing bracket that nothing opened");
        CR_TRY(push(x, (cr_token){ .type = (cr_tok)(CR_TOK_FLOORDIV + i), .line = x->line }));
        move_to(x, x->at + strlen(operators[i]));
        return CERA_OK;
    }
    return cr_fail(x->err, CERA_E_FORMAT, "template: line %d: unexpected character '%c'", x->line,
                   x->source.data[x->at]);
}

/* {% ... %} or {{ ... }} from behind its opening bracket. */
static cera_status lex_tag(lexer *x, bool is_print)
{
    int line = x->line;
    CR_TRY(push(
        x, (cr_token){ .type = is_print ? CR_TOK_VAR_BEGIN : CR_TOK_BLOCK_BEGIN, .line = line }));
    x->n_open = 0;
    while (x->at < x->source.size) {
        size_t end = 0;
        if (x->n_open == 0 && !is_print)
            end = tag_end(x, x->at, "%}");
        else if (x->n_open == 0)
            end = has(x, x->at, "-}}")  ? skip_blanks(x, x->at + 3)
                  : has(x, x->at, "}}") ? x->at + 2
                                        : 0;
        if (end > 0) {
            CR_TRY(push(x, (cr_token){ .type = is_print ? CR_TOK_VAR_END : CR_TOK_BLOCK_END,
                                       .line = x->line }));
            move_to(x, end);
            return CERA_OK;
        }
        size_t next = skip_blanks(x, x->at);
        if (next > x->at) {
            move_to(x, next);
            continue;
        }
        char c = x->source.data[x->at];
        if (is_digit(c)) {
            CR_TRY(lex_number(x));
        } else if (is_name_byte(c)) {
            while (is_name_byte(at(x, next)))
                next++;
            CR_TRY(push(x, (cr_token){ .type = CR_TOK_NAME,
                                       .line = x->line,
                                       .text = { x->source.data + x->at, next - x->at } }));
            move_to(x, next);
        } else if (c == '"' || c == '\'') {
            CR_TRY(lex_string(x));
        } else {
            CR_TRY(lex_operator(x));
        }
    }
    return fail_at(x, line, is_print ? "expected }}, found the end" : "expected %}, found the end");
}

/* ---- all of it ----------------------------------------------------------------------------- */

static cera_status lex_all(lexer *x)
{
    while (x->at < x->source.size) {
        size_t i = x->at;
        while (i < x->source.size && !has(x, i, "{%") && !has(x, i, "{{") && !has(x, i, "{#"))
            i++;
        if (i == x->source.size)
            return push(x, (cr_token){ .type = CR_TOK_DATA,
                                       .line = x->line,
                                       .text = { x->source.data + x->at, i - x->at } });
        char kind = x->source.data[i + 1];
        char sign = is_sign(at(x, i + 2)) ? at(x, i + 2) : '\0';
        CR_TRY(push_data(x, x->at, i, sign, kind == '{'));
        move_to(x, i);
        size_t raw = kind == '%' ? raw_begin(x, i) : 0;
        if (kind == '#') {
            CR_TRY(lex_comment(x));
        } else if (raw > 0) {
            CR_TRY(lex_raw(x, raw));
        } else {
            move_to(x, i + (sign != '\0' ? 3 : 2));
            CR_TRY(lex_tag(x, kind == '{'));
        }
    }
    return CERA_OK;
}

cera_status cr_template_lex(cr_str source, cr_arena *arena, cr_token **out, cera_error *err)
{
    lexer x = { .line = 1, .line_starting = true, .arena = arena, .err = err };
    char *text = cr_arena_alloc(arena, source.size + 1);
    if (text == NULL)
        return cr_fail_nomem(err, source.size, "the template");
    size_t n = 0;
    for (size_t i = 0; i < source.size; i++) {
        char c = source.data[i];
        if (c == '\r' && i + 1 < source.size && source.data[i + 1] == '\n')
            continue;
        text[n++] = c == '\r' ? '\n' : c;
    }
    for (size_t i = 0; i < n;) {
        uint32_t code;
        size_t length = cr_utf8_decode(text + i, n - i, &code);
        if (length == 0)
            return cr_fail(err, CERA_E_FORMAT, "template: expected UTF-8, found byte 0x%02X at %zu",
                           (unsigned char)text[i], i);
        i += length;
    }
    if (n > 0 && text[n - 1] == '\n')
        n--;
    x.source = (cr_str){ text, n };
    CR_TRY(lex_all(&x));
    CR_TRY(push(&x, (cr_token){ .type = CR_TOK_END, .line = x.line }));
    *out = x.tokens;
    return CERA_OK;
}
