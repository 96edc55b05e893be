/* The alphabets of vocabularies: characters to bytes. */
#include "token/alphabet.h"

/* The byte that a character of two UTF-8 bytes stands for, -1 for none. */
static int byte_of(unsigned code)
{
    if ((code >= 0xa1 && code <= 0xac) || (code >= 0xae && code <= 0xff))
        return (int)code;
    /* U+0100 upward: first 00..20, then 7F..A0, then AD. */
    unsigned nth = code - 0x100;
    if (code < 0x100 || nth > 67)
        return -1;
    if (nth <= 0x20)
        return (int)nth;
    return nth < 67 ? (int)(0x7f + nth - 0x21) : 0xad;
}

static bool decode_bytes(cr_str text, char *out, size_t *n)
{
    size_t size = 0;
    for (size_t i = 0; i < text.size;) {
        unsigned char first = (unsigned char)text.data[i];
        if (first < 0x80) {
            if (first < 0x21 || first > 0x7e)
                return false;
            out[size++] = (char)first;
            i++;
            continue;
        }
        /* C2..C5 lead the characters from U+0080 to U+017F. */
        if (first < 0xc2 || first > 0xc5 || i + 1 == text.size)
            return false;
        unsigned char second = (unsigned char)text.data[i + 1];
        if ((second & 0xc0) != 0x80)
            return false;
        int byte = byte_of((first & 0x1fu) << 6 | (second & 0x3fu));
        if (byte < 0)
            return false;
        out[size++] = (char)byte;
        i += 2;
    }
    *n = size;
    return true;
}

static bool decode_blanks(cr_str text, char *out, size_t *n)
{
    size_t size = 0;
    for (size_t i = 0; i < text.size;) {
        if (text.data[i] == ' ')
            return false;
        bool blank = text.size - i >= 3 && memcmp(text.data + i, "\xe2\x96\x81", 3) == 0;
        out[size++] = blank ? ' ' : text.data[i];
        i += blank ? 3 : 1;
    }
    *n = size;
    return true;
}

bool cr_alphabet_decode(cr_alphabet alphabet, cr_str text, char *out, size_t *n)
{
    if (alphabet == CR_ALPHABET_BYTES)
        return decode_bytes(text, out, n);
    if (alphabet == CR_ALPHABET_BLANKS)
        return decode_blanks(text, out, n);
    if (text.size > 0)
        memcpy(out, text.data, text.size);
    *n = text.size;
    return true;
}
