/* Character classes of the pre-tokenizer patterns, for use inside [...].
 *
 * Two things are not taken from PCRE2: `\s` is spelled out, because PCRE2's has U+180E, which is no
 * white space; and the characters that Unicode 15 and 16 added are listed, because the models' own
 * tokenizers know them and PCRE2 10.42 has the tables of Unicode 14. Where PCRE2 is newer they are
 * said twice, which changes nothing. */
#ifndef CR_SPLIT_CLASSES_H
#define CR_SPLIT_CLASSES_H

/* White space without line ends, and with them. */
#define BLANK                                                                                      \
    "\\x{09}\\x{0b}\\x{0c}\\x{20}\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}"     \
    "\\x{202f}\\x{205f}\\x{3000}"
#define WHITE "\\r\\n" BLANK

/* Lu, Lt */
#define NEW_UPPER "\\x{1c89}\\x{a7cb}\\x{a7cc}\\x{a7da}\\x{a7dc}\\x{10d50}-\\x{10d65}"
/* Ll */
#define NEW_LOWER "\\x{1c8a}\\x{a7cd}\\x{a7db}\\x{10d70}-\\x{10d85}\\x{1df25}-\\x{1df2a}"
/* Lm, Lo */
#define NEW_UNCASED                                                                                \
    "\\x{105c0}-\\x{105f3}\\x{10d4a}-\\x{10d4f}\\x{10d6f}\\x{10ec2}-\\x{10ec4}\\x{1123f}-"         \
    "\\x{11240}\\x{11380}-\\x{11389}\\x{1138b}\\x{1138e}\\x{11390}-\\x{113b5}\\x{113b7}"           \
    "\\x{113d1}\\x{113d3}\\x{11bc0}-\\x{11be0}\\x{11f02}\\x{11f04}-\\x{11f10}\\x{11f12}-"          \
    "\\x{11f33}\\x{1342f}\\x{13441}-\\x{13446}\\x{13460}-\\x{143fa}\\x{16100}-\\x{1611d}"          \
    "\\x{16d40}-\\x{16d6c}\\x{18cff}\\x{1b132}\\x{1b155}\\x{1e030}-\\x{1e06d}\\x{1e4d0}-"          \
    "\\x{1e4eb}\\x{1e5d0}-\\x{1e5ed}\\x{1e5f0}\\x{2b739}\\x{2ebf0}-\\x{2ee5d}\\x{31350}-"          \
    "\\x{323af}"
#define NEW_MARKS                                                                                  \
    "\\x{897}\\x{cf3}\\x{ece}\\x{10d69}-\\x{10d6d}\\x{10efc}-\\x{10eff}\\x{11241}\\x{113b8}-"      \
    "\\x{113c0}\\x{113c2}\\x{113c5}\\x{113c7}-\\x{113ca}\\x{113cc}-\\x{113d0}\\x{113d2}"           \
    "\\x{113e1}\\x{113e2}\\x{11f00}\\x{11f01}\\x{11f03}\\x{11f34}-\\x{11f3a}\\x{11f3e}-"           \
    "\\x{11f42}\\x{11f5a}\\x{13440}\\x{13447}-\\x{13455}\\x{1611e}-\\x{1612f}\\x{1e08f}"           \
    "\\x{1e4ec}-\\x{1e4ef}\\x{1e5ee}\\x{1e5ef}"
#define NEW_DIGITS                                                                                 \
    "\\x{10d40}-\\x{10d49}\\x{116d0}-\\x{116e3}\\x{11bf0}-\\x{11bf9}\\x{11f50}-\\x{11f59}"         \
    "\\x{16130}-\\x{16139}\\x{16d70}-\\x{16d79}\\x{1ccf0}-\\x{1ccf9}\\x{1e4f0}-\\x{1e4f9}"         \
    "\\x{1e5f1}-\\x{1e5fa}"
#define NEW_PUNCTUATION                                                                            \
    "\\x{1b4e}\\x{1b4f}\\x{1b7f}\\x{10d6e}\\x{113d4}\\x{113d5}\\x{113d7}\\x{113d8}\\x{11b00}-"     \
    "\\x{11b09}\\x{11be1}\\x{11f43}-\\x{11f4f}\\x{16d6d}-\\x{16d6f}\\x{1e5ff}"
#define NEW_SYMBOLS                                                                                \
    "\\x{2427}-\\x{2429}\\x{2ffc}-\\x{2fff}\\x{31e4}\\x{31e5}\\x{31ef}\\x{10d8e}\\x{10d8f}"        \
    "\\x{1cc00}-\\x{1ccef}\\x{1cd00}-\\x{1ceb3}\\x{1f6dc}\\x{1f774}-\\x{1f776}\\x{1f77b}-"         \
    "\\x{1f77f}\\x{1f7d9}\\x{1f8b2}-\\x{1f8bb}\\x{1f8c0}\\x{1f8c1}\\x{1fa75}-\\x{1fa77}"           \
    "\\x{1fa87}-\\x{1fa89}\\x{1fa8f}\\x{1faad}-\\x{1faaf}\\x{1fabb}-\\x{1fabf}\\x{1fac6}"          \
    "\\x{1face}\\x{1facf}\\x{1fada}-\\x{1fadc}\\x{1fadf}\\x{1fae8}\\x{1fae9}\\x{1faf7}\\x{1faf8}"  \
    "\\x{1fbcb}-\\x{1fbef}"

#define LETTER "\\p{L}" NEW_UPPER NEW_LOWER NEW_UNCASED
#define MARK "\\p{M}" NEW_MARKS
#define DIGIT "\\p{Nd}" NEW_DIGITS
#define NUMBER "\\p{N}" NEW_DIGITS "\\x{1d2c0}-\\x{1d2d3}"
#define PUNCTUATION "\\p{P}" NEW_PUNCTUATION
#define SYMBOL "\\p{S}" NEW_SYMBOLS
/* What a capitalised word may begin with, and what it may go on with: letters without case and
 * marks are both. */
#define UPPER "\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}" NEW_UPPER NEW_UNCASED NEW_MARKS
#define LOWER "\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}" NEW_LOWER NEW_UNCASED NEW_MARKS
/* The same two without Chinese characters, by what is left out (and so without the new ones). */
#define NOT_UPPER_OR_HAN "\\p{Ll}\\p{N}\\p{P}\\p{S}\\p{Z}\\p{C}\\p{sc:Han}"
#define NOT_LOWER_OR_HAN "\\p{Lu}\\p{Lt}\\p{N}\\p{P}\\p{S}\\p{Z}\\p{C}\\p{sc:Han}"
/* What `\b` is a boundary of in the regular expressions of the models' tokenizers. */
#define WORD                                                                                       \
    LETTER MARK NUMBER_IN_WORDS "\\p{Pc}\\x{24b6}-\\x{24e9}\\x{1f130}-\\x{1f149}\\x{1f150}-"       \
                                "\\x{1f169}\\x{1f170}-\\x{1f189}"
#define NUMBER_IN_WORDS DIGIT "\\p{Nl}\\x{b2}\\x{b3}\\x{b9}\\x{bc}-\\x{be}"

/* Han up to Unicode 1, Hiragana and Katakana. */
#define JAPANESE "\\x{4e00}-\\x{9fa5}\\x{3040}-\\x{30ff}"
/* Han, Hangul and all that stands between U+0800 and them. */
#define EAST_ASIAN "\\x{800}-\\x{9fa5}\\x{ac00}-\\x{d7ff}"
#define ASIAN                                                                                      \
    "\\x{4e00}-\\x{9fff}\\x{3400}-\\x{4dbf}\\x{f900}-\\x{faff}\\x{3040}-\\x{30ff}\\x{ff65}-"       \
    "\\x{ff9f}\\x{2f00}-\\x{2fdf}\\x{e40}-\\x{eff}\\x{1780}-\\x{17ff}\\x{1000}-\\x{109f}"          \
    "\\x{aa60}-\\x{aa7f}\\x{a9e0}-\\x{a9ff}\\x{ac00}-\\x{d7af}\\x{1100}-\\x{11ff}"
/* The letters with case of Unicode 11. */
#define CASED                                                                                      \
    "A-Za-z\\x{b5}\\x{c0}-\\x{d6}\\x{d8}-\\x{f6}\\x{f8}-\\x{1ba}\\x{1bc}-\\x{1bf}\\x{1c4}-"        \
    "\\x{293}\\x{295}-\\x{2af}\\x{370}-\\x{373}\\x{376}\\x{377}\\x{37b}-\\x{37d}\\x{37f}\\x{386}"  \
    "\\x{388}-\\x{38a}\\x{38c}\\x{38e}-\\x{3a1}\\x{3a3}-\\x{3f5}\\x{3f7}-\\x{481}\\x{48a}-"        \
    "\\x{52f}\\x{531}-\\x{556}\\x{10a0}-\\x{10c5}\\x{13a0}-\\x{13f5}\\x{13f8}-\\x{13fd}"           \
    "\\x{1c90}-\\x{1cba}\\x{1cbd}-\\x{1cbf}\\x{1d00}-\\x{1d2b}\\x{1d6b}-\\x{1d77}\\x{1d79}-"       \
    "\\x{1d9a}\\x{1e00}-\\x{1f15}\\x{1f18}-\\x{1f1d}\\x{1f20}-\\x{1f45}\\x{1f48}-\\x{1f4d}"        \
    "\\x{1f50}-\\x{1f57}\\x{1f59}\\x{1f5b}\\x{1f5d}\\x{1f5f}-\\x{1f7d}\\x{1f80}-\\x{1fb4}"         \
    "\\x{1fb6}-\\x{1fbc}\\x{1fbe}\\x{1fc2}-\\x{1fc4}\\x{1fc6}-\\x{1fcc}\\x{1fd0}-\\x{1fd3}"        \
    "\\x{1fd6}-\\x{1fdb}\\x{1fe0}-\\x{1fec}\\x{1ff2}-\\x{1ff4}\\x{1ff6}-\\x{1ffc}\\x{2102}"        \
    "\\x{2107}\\x{210a}-\\x{2113}\\x{2115}\\x{2119}-\\x{211d}\\x{2124}\\x{2126}\\x{2128}"          \
    "\\x{212a}-\\x{212d}\\x{212f}-\\x{2134}\\x{2139}\\x{213c}-\\x{213f}\\x{2145}-\\x{2149}"        \
    "\\x{214e}\\x{2183}\\x{2184}\\x{2c00}-\\x{2c7b}\\x{2c7e}-\\x{2ce4}\\x{2ceb}-\\x{2cee}"         \
    "\\x{2cf2}\\x{2cf3}\\x{a640}-\\x{a66d}\\x{a680}-\\x{a69b}\\x{a722}-\\x{a76f}\\x{a771}-"        \
    "\\x{a787}\\x{a78b}-\\x{a78e}\\x{ab70}-\\x{abbf}\\x{fb00}-\\x{fb06}\\x{fb13}-\\x{fb17}"        \
    "\\x{ff21}-\\x{ff3a}\\x{ff41}-\\x{ff5a}\\x{10400}-\\x{1044f}\\x{104b0}-\\x{104d3}"             \
    "\\x{104d8}-\\x{104fb}\\x{10c80}-\\x{10cb2}\\x{10cc0}-\\x{10cf2}\\x{118a0}-\\x{118df}"         \
    "\\x{1e900}-\\x{1e943}"

#endif
