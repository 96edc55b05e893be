/* Which pre-tokenizer each name in tokenizer.ggml.pre stands for.
 *
 * A family is a row of patterns, each applied to the pieces that the ones before it left; what a
 * pattern matches is a piece, and so is what lies between two matches. The patterns are those of
 * the models' own tokenizer files, with two liberties: a row is folded into one pattern where that
 * is simple, and no pattern backtracks into more than one repeat, or looks ahead again over what it
 * has looked at, so that a walk over a text is linear. */
#include "token/split.h"

#include "token/split_classes.h"

#define CONTRACTION "'s|'t|'re|'ve|'m|'ll|'d"
#define ANY_CONTRACTION "(?i:" CONTRACTION ")"

/* Line ends with the white space before them; of other white space all but the last character,
 * which belongs to what follows. */
#define BLANKS "|[" WHITE "]*[\\r\\n]+|[" WHITE "]+(?![^" WHITE "])|[" WHITE "]+"

/* Words, numbers and punctuation take one space before them. */
#define GPT2_PATTERN                                                                               \
    CONTRACTION "| ?[" LETTER "]+| ?[" NUMBER "]+| ?[^" WHITE LETTER NUMBER "]+|[" WHITE           \
                "]+(?![^" WHITE "])|[" WHITE "]+"

/* Words may begin with any one character but a line end, a letter or a number; punctuation takes
 * the line ends after it; numbers come in groups of at most `digits`. */
#define LLAMA3_PATTERN(digits) ANY_CONTRACTION "|" WORDS_PATTERN(digits)
#define WORDS_PATTERN(digits)                                                                      \
    "[^\\r\\n" LETTER NUMBER "]?[" LETTER "]+|[" NUMBER "]" digits "| ?[^" WHITE LETTER NUMBER     \
    "]+[\\r\\n]*" BLANKS

/* Words also end where a capital follows a small letter; slashes may follow punctuation. */
#define CASED_PATTERN(contraction, digits)                                                         \
    "[^\\r\\n" LETTER NUMBER "]?[" UPPER "]*[" LOWER "]+" contraction "|[^\\r\\n" LETTER NUMBER    \
    "]?[" UPPER "]+[" LOWER "]*" contraction "|[" NUMBER "]" digits "| ?[^" WHITE LETTER NUMBER    \
    "]+[\\r\\n/]*" BLANKS

/* A word may begin with one ASCII punctuation mark. */
#define ASCII_WORD "[!-/:-@\\[-`{-~][A-Za-z]+"
#define MARKED_WORD "[^\\r\\n" LETTER PUNCTUATION SYMBOL "]?[" LETTER MARK "]+"
#define SIGNS " ?[" PUNCTUATION SYMBOL "]+"

/* Numbers in threes from the right, as in 1|234|567. Only where a run begins is its length looked
 * at; \G is the end of the group before. `end` is what has to follow the run. */
#define THREES(class, end)                                                                         \
    "(?<![" class "])[" class "]{1,3}(?=(?:[" class "]{3})*+(?![" class "])" end ")"               \
                                                                        "|\\G(?<=[" class          \
        "])[" class "]{3}"

/* The same, but only before complete threes: what is not a decimal digit (a fraction, a Roman
 * numeral) stays with the digits before it, as do runs of one or two. */
#define FIRST_DIGITS "(?<![" DIGIT "])[" DIGIT "]{1,2}(?=(?:[" DIGIT "]{3})++(?![" DIGIT "]))"
#define FEW_DIGITS "(?:[^" DIGIT "]|(?<![" DIGIT "])[" DIGIT "]{1,2}(?![" DIGIT "]))"
#define COMPLETE_THREES                                                                            \
    "(?<![" DIGIT "])" FEW_DIGITS "++(?:" FIRST_DIGITS ")?|" FIRST_DIGITS "|[" DIGIT               \
    "]{3}(?=[" DIGIT "])|[" DIGIT "]{3}" FEW_DIGITS "*+(?:" FIRST_DIGITS ")?"

#define HAN_WORD                                                                                   \
    "[\\p{sc:Han}]+|[^\\r\\n" LETTER NUMBER "]?[^" NOT_UPPER_OR_HAN "]*[^" NOT_LOWER_OR_HAN        \
    "]+" ANY_CONTRACTION "?|[^\\r\\n" LETTER NUMBER "]?[^" NOT_UPPER_OR_HAN                        \
    "]+[^" NOT_LOWER_OR_HAN "]*" ANY_CONTRACTION "?"

#define NOT_BLOOM "\\(" WHITE "|.,!?\\x{2026}\\x{3002}\\x{ff0c}\\x{3001}\\x{964}\\x{6d4}\\x{60c}\\)"

typedef enum family {
    AFMOE,
    BAILING,
    BLOOM,
    CHAMELEON,
    DEEPSEEK_CODER,
    DEEPSEEK_LLM,
    DEEPSEEK_V3,
    DEFAULT,
    DIGITS,
    EXAONE_MOE,
    FALCON,
    GPT2,
    GPT4O,
    JAIS2,
    KIMI,
    LAGUNA,
    LINES,
    LLAMA3,
    MINICPM5,
    QWEN2,
    QWEN35,
    SEED,
    SPARK,
    SUPERBPE,
    TEKKEN,
    TINY_AYA,
    UFAKZEKA,
    VIKING,
    WORDS,
    YOUTU,
    N_FAMILIES
} family;

static const char *const families[N_FAMILIES][CR_SPLIT_STEPS] = {
    [GPT2] = { GPT2_PATTERN },
    /* GPT2 between digits, each of which is a piece: a digit ends the text before it, so white
     * space keeps its last character there. */
    [DIGITS] = { CONTRACTION "| ?[" LETTER "]+|[" NUMBER "]| ?[^" WHITE LETTER NUMBER "]+|[" WHITE
                             "]+(?![^" WHITE NUMBER "])|[" WHITE "]+" },
    [DEFAULT] = { "[" PUNCTUATION "$+<=>^~|]+", GPT2_PATTERN, "[" NUMBER "]+", "[0-9]{3}" },
    [FALCON] = { "[" PUNCTUATION "$+<=>^~|`]+", GPT2_PATTERN, "[0-9]{3}" },
    [CHAMELEON] = { "<sentinel:[0-9]+>", "IMGIMG[A-I]{1,4}Z", "[\\t\\n]|    |  ", "[" NUMBER "]",
                    "[" PUNCTUATION "!-/:-@\\[-`{-~]", GPT2_PATTERN },
    [SUPERBPE] = { "[" NUMBER "]+", COMPLETE_THREES },

    [LLAMA3] = { LLAMA3_PATTERN("{1,3}") },
    [QWEN2] = { LLAMA3_PATTERN("") },
    [UFAKZEKA] = { WORDS_PATTERN("") },
    [LAGUNA] = { "[^\\n]+|\\n+", LLAMA3_PATTERN("") },
    [MINICPM5] = { "[" NUMBER "]{1,3}", LLAMA3_PATTERN("+") },
    /* Marks belong to words. */
    [QWEN35] = { ANY_CONTRACTION "|[^\\r\\n" LETTER NUMBER "]?[" LETTER MARK "]+|[" NUMBER
                                 "]| ?[^" WHITE LETTER MARK NUMBER "]+[\\r\\n]*" BLANKS },
    /* Line ends one at a time. */
    [BAILING] = { ANY_CONTRACTION "|[^\\r\\n" LETTER NUMBER "]?[" LETTER "]+|[" NUMBER
                                  "]| ?[^" WHITE LETTER NUMBER "]+[\\r\\n]*|[" WHITE
                                  "]*[\\r\\n]|[" WHITE "]+(?![^" WHITE "])|[" WHITE "]+" },
    /* Words may be joined by single spaces. */
    [EXAONE_MOE] = { ANY_CONTRACTION "|[^\\r\\n" LETTER NUMBER "]?[" LETTER "](?: ?[" LETTER
                                     "]|[" MARK "])*+|[" NUMBER "]| ?[^" WHITE LETTER NUMBER
                                     "]+[\\r\\n/]?|[" WHITE "]*[\\r\\n]|[" WHITE "]+(?![^" WHITE
                                     "])|[" WHITE "]+" },
    [SEED] = { ANY_CONTRACTION "|[^\\r\\n" LETTER NUMBER "]?[" LETTER "]+|[" NUMBER
                               "]| ?[^" WHITE LETTER NUMBER "]+" BLANKS },
    /* Long runs of white space in powers of two. Behind a blank no line end can follow, or it would
     * have been in the piece before: looking for one anew in each part would be quadratic. */
    [JAIS2] = { ANY_CONTRACTION "|[^\\r\\n" LETTER NUMBER "]?[" LETTER "]+|[" NUMBER
                                "]{1,3}| ?[^" WHITE LETTER NUMBER "]+[\\r\\n]*|(?<![" BLANK
                                "])[" WHITE "]*[\\r\\n]+|(?:[" WHITE "]{512}|[" WHITE
                                "]{256}|[" WHITE "]{128}|[" WHITE "]{64}|[" WHITE "]{32}|[" WHITE
                                "]{16}|[" WHITE "]{8}|[" WHITE "]{4}|[" WHITE "]{1,2})(?![^" WHITE
                                "])|[" WHITE "]" },

    [GPT4O] = { CASED_PATTERN(ANY_CONTRACTION "?", "{1,3}") },
    [TEKKEN] = { CASED_PATTERN("", "") },
    [TINY_AYA] = { THREES(DIGIT, "(?![" WORD "])"), CASED_PATTERN(ANY_CONTRACTION "?", "{1,3}") },
    [YOUTU] = { "[\\x{ac00}-\\x{d7a3}\\x{3131}-\\x{318e}]+"
                "|[\\x{ff01}\\x{2026}\\x{201c}\\x{201d}\\x{2018}\\x{2019}\\x{2014}\\x{ff1a}"
                "\\x{ff1b}\\x{ff0c}\\x{3001}-\\x{303f}\\x{fe30}-\\x{fe4f}]+"
                "|[\\x{3105}-\\x{312f}]+|[" JAPANESE "]+",
                CASED_PATTERN(ANY_CONTRACTION "?", "") },
    [KIMI] = { HAN_WORD "|[" NUMBER "]{1,3}| ?[^" WHITE LETTER NUMBER "]+[\\r\\n]*" BLANKS },

    [DEEPSEEK_LLM] = { "[\\r\\n]", "[" WHITE "]?[" CASED "]+",
                       "[" WHITE "]?[!-/:-~\\x{ff01}-\\x{ff0f}\\x{ff1a}-\\x{ff5e}\\x{2018}-"
                       "\\x{201f}\\x{3000}-\\x{3002}]+",
                       "(?<![" WHITE "])[" WHITE "]++\\z", "[" EAST_ASIAN "]+", "[" NUMBER "]+" },
    [DEEPSEEK_CODER] = { "[\\r\\n]", "[" WHITE "]?[" LETTER "]+", "[" WHITE "]?[" PUNCTUATION "]+",
                         "[" EAST_ASIAN "]+", "[" NUMBER "]" },
    [DEEPSEEK_V3] = { "[" NUMBER "]{1,3}", "[" JAPANESE "]+",
                      ASCII_WORD "|" MARKED_WORD "|" SIGNS "[\\r\\n]*" BLANKS },
    [SPARK] = { "[" NUMBER "]{1,3}", "[" JAPANESE "]+",
                ASCII_WORD "|" MARKED_WORD "|" SIGNS "|[\\r\\n]|[" WHITE "]+(?![^" WHITE
                           "])|[" WHITE "]+",
                "[" NUMBER "]" },
    [AFMOE] = { THREES(NUMBER, ""), "[" ASIAN "]+",
                ASCII_WORD "|" MARKED_WORD "|" SIGNS "[\\r\\n]*" BLANKS },

    [BLOOM] = { " ?[^" NOT_BLOOM "]+" },
    [VIKING] = { " ?[^" NOT_BLOOM "]+", "[" NUMBER "]" },
    [LINES] = { "[^\\n]+|\\n+" },
    [WORDS] = { "[^" WHITE "]+" },
};

/* A piece that is itself a token is that token; BOS unless the file says no; BOS whatever the file
 * says (some said no by mistake); tokens are written as SentencePiece does, or as they are. */
enum { IGNORE = 1, BOS = 2, ALWAYS_BOS = 4, SPACES = 8, PLAIN = 16 };

static const struct {
    const char *name;
    family family;
    int flags;
} names[] = {
    { "default", DEFAULT, 0 },
    { "gpt-2", GPT2, 0 },
    { "gpt2", GPT2, 0 },
    { "phi-2", GPT2, 0 },
    { "mpt", GPT2, 0 },
    { "olmo", GPT2, 0 },
    { "jais", GPT2, 0 },
    { "trillion", GPT2, 0 },
    { "exaone4", GPT2, 0 },
    { "granite-docling", GPT2, 0 },
    { "gigachat", GPT2, 0 },
    { "a.x-4.0", GPT2, 0 },
    { "mellum", GPT2, 0 },
    { "modern-bert", GPT2, 0 },
    { "roberta-bpe", GPT2, 0 },
    { "jina-es", GPT2, 0 },
    { "jina-de", GPT2, 0 },
    { "jina-v1-en", GPT2, 0 },
    { "jina-v2-es", GPT2, 0 },
    { "jina-v2-de", GPT2, 0 },
    { "jina-v2-code", GPT2, 0 },
    { "smollm", DIGITS, 0 },
    { "refact", DIGITS, 0 },
    { "codeshell", DIGITS, 0 },
    { "starcoder", DIGITS, 0 },
    { "command-r", DIGITS, 0 },
    { "exaone", DIGITS, 0 },
    { "minerva-7b", DIGITS, 0 },
    { "mellum2", DIGITS, 0 },
    { "falcon", FALCON, 0 },
    { "chameleon", CHAMELEON, BOS },
    { "superbpe", SUPERBPE, 0 },
    { "llama-bpe", LLAMA3, IGNORE | BOS },
    { "llama3", LLAMA3, IGNORE | BOS },
    { "llama-v3", LLAMA3, IGNORE | BOS },
    { "lfm2", LLAMA3, IGNORE | BOS },
    { "falcon3", LLAMA3, IGNORE | BOS },
    { "falcon-h1", LLAMA3, IGNORE | BOS },
    { "pixtral", LLAMA3, IGNORE | BOS },
    { "midm-2.0", LLAMA3, IGNORE | BOS },
    { "jina-v5-nano", LLAMA3, IGNORE | BOS },
    { "glm4", LLAMA3, IGNORE },
    { "glm5", LLAMA3, IGNORE },
    { "chatglm-bpe", LLAMA3, 0 },
    { "dbrx", LLAMA3, 0 },
    { "smaug-bpe", LLAMA3, 0 },
    { "qwen2", QWEN2, 0 },
    { "deepseek-r1-qwen", QWEN2, 0 },
    { "megrez", QWEN2, 0 },
    { "stablelm2", QWEN2, 0 },
    { "hunyuan", QWEN2, 0 },
    { "solar-open", QWEN2, 0 },
    { "grok-2", QWEN2, 0 },
    { "kormo", QWEN2, 0 },
    { "f2llmv2", QWEN2, 0 },
    { "ufakzeka", UFAKZEKA, 0 },
    { "laguna", LAGUNA, 0 },
    { "minicpm5", MINICPM5, IGNORE },
    { "qwen35", QWEN35, 0 },
    { "bailingmoe", BAILING, 0 },
    { "bailingmoe2", BAILING, 0 },
    { "llada-moe", BAILING, 0 },
    { "exaone-moe", EXAONE_MOE, 0 },
    { "seed-coder", SEED, 0 },
    { "jais-2", JAIS2, 0 },
    { "gpt-4o", GPT4O, 0 },
    { "llama4", GPT4O, 0 },
    { "kanana2", GPT4O, 0 },
    { "talkie", GPT4O, 0 },
    { "minimax-m2", GPT4O, 0 },
    { "granite-embed-multi-97m", GPT4O, IGNORE },
    { "tekken", TEKKEN, IGNORE | BOS },
    { "tiny_aya", TINY_AYA, 0 },
    { "cohere2moe", TINY_AYA, 0 },
    { "youtu", YOUTU, IGNORE },
    { "kimi-k2", KIMI, 0 },
    { "deepseek-llm", DEEPSEEK_LLM, 0 },
    { "deepseek-coder", DEEPSEEK_CODER, 0 },
    { "deepseek-v3", DEEPSEEK_V3, 0 },
    { "hunyuan-dense", DEEPSEEK_V3, 0 },
    { "joyai-llm", DEEPSEEK_V3, 0 },
    { "hy_v4", DEEPSEEK_V3, 0 },
    { "spark2_5", SPARK, 0 },
    { "afmoe", AFMOE, 0 },
    { "bloom", BLOOM, 0 },
    { "poro-chat", BLOOM, 0 },
    { "gpt3-finnish", BLOOM, 0 },
    { "viking", VIKING, 0 },
    { "gemma4", LINES, ALWAYS_BOS | SPACES },
    { "granite-embed-multi-311m", LINES, ALWAYS_BOS | SPACES },
    { "sarvam-moe", LINES, SPACES },
    { "whitespace", WORDS, PLAIN },
};

bool cr_split_find(cr_str name, cr_split_rule *out)
{
    for (size_t i = 0; i < CR_COUNT(names); i++) {
        if (!cr_str_is(name, names[i].name))
            continue;
        *out = (cr_split_rule){
            .name = names[i].name,
            .steps = families[names[i].family],
            .ignore_merges = (names[i].flags & IGNORE) != 0,
            .add_bos = (names[i].flags & (BOS | ALWAYS_BOS)) != 0,
            .always_bos = (names[i].flags & ALWAYS_BOS) != 0,
            .alphabet = names[i].flags & SPACES  ? CR_ALPHABET_BLANKS
                        : names[i].flags & PLAIN ? CR_ALPHABET_PLAIN
                                                 : CR_ALPHABET_BYTES,
        };
        return true;
    }
    return false;
}
