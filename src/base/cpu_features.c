/* Instruction sets: what the processor has and the operating system keeps.
 *
 * An instruction set with registers of its own can be used only when the operating system saves
 * them on a task switch. On x86, XGETBV tells which register files it saves; CPUID alone does not.
 * On ARM the operating system lists what programs may use. */
#include "base/cpu.h"
#include "base/text.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

static const char *const tier_names[CR_TIER_COUNT] = {
#define TIER(id, name) [CR_TIER_##id] = name,
    CR_TIERS(TIER)
#undef TIER
};

const char *cr_tier_name(cr_tier tier)
{
    assert(tier < CR_TIER_COUNT);
    return tier_names[tier];
}

bool cr_tier_find(const char *name, cr_tier *out)
{
    for (int i = 0; i < CR_TIER_COUNT; i++) {
        if (strcmp(name, tier_names[i]) == 0) {
            *out = (cr_tier)i;
            return true;
        }
    }
    return false;
}

#if defined(__x86_64__) || defined(__i386__)

#include <cpuid.h>

/* The four result words of the three CPUID leaves that matter. */
enum { EAX, EBX, ECX, EDX, N_REGISTERS };
enum { LEAF_1, LEAF_7, LEAF_7_1, N_LEAVES };
typedef struct cpu_words {
    uint32_t word[N_LEAVES][N_REGISTERS];
    uint32_t saved; /* low half of XCR0: register files that the operating system saves */
} cpu_words;

/* Bits of XCR0. */
enum {
    SAVE_YMM = 0x6,     /* XMM and the upper halves of YMM */
    SAVE_ZMM = 0xe6,    /* these, mask registers, upper halves of ZMM, ZMM16 to 31 */
    SAVE_TILE = 0x60000 /* AMX configuration and tiles */
};

/* FEATURE(name, leaf, register, bit, saved register files). The order is that of the output. */
#define FEATURES(FEATURE)                                                                          \
    FEATURE(SSE41, "sse4.1", LEAF_1, ECX, 19, 0)                                                   \
    FEATURE(SSE42, "sse4.2", LEAF_1, ECX, 20, 0)                                                   \
    FEATURE(BMI2, "bmi2", LEAF_7, EBX, 8, 0)                                                       \
    FEATURE(AVX, "avx", LEAF_1, ECX, 28, SAVE_YMM)                                                 \
    FEATURE(F16C, "f16c", LEAF_1, ECX, 29, SAVE_YMM)                                               \
    FEATURE(FMA, "fma", LEAF_1, ECX, 12, SAVE_YMM)                                                 \
    FEATURE(AVX2, "avx2", LEAF_7, EBX, 5, SAVE_YMM)                                                \
    FEATURE(AVXVNNI, "avxvnni", LEAF_7_1, EAX, 4, SAVE_YMM)                                        \
    FEATURE(AVX512F, "avx512f", LEAF_7, EBX, 16, SAVE_ZMM)                                         \
    FEATURE(AVX512BW, "avx512bw", LEAF_7, EBX, 30, SAVE_ZMM)                                       \
    FEATURE(AVX512DQ, "avx512dq", LEAF_7, EBX, 17, SAVE_ZMM)                                       \
    FEATURE(AVX512VL, "avx512vl", LEAF_7, EBX, 31, SAVE_ZMM)                                       \
    FEATURE(AVX512VBMI, "avx512vbmi", LEAF_7, ECX, 1, SAVE_ZMM)                                    \
    FEATURE(AVX512VNNI, "avx512vnni", LEAF_7, ECX, 11, SAVE_ZMM)                                   \
    FEATURE(AVX512BF16, "avx512bf16", LEAF_7_1, EAX, 5, SAVE_ZMM)                                  \
    FEATURE(AVX512FP16, "avx512fp16", LEAF_7, EDX, 23, SAVE_ZMM)                                   \
    FEATURE(AMXTILE, "amx-tile", LEAF_7, EDX, 24, SAVE_TILE)                                       \
    FEATURE(AMXINT8, "amx-int8", LEAF_7, EDX, 25, SAVE_TILE)                                       \
    FEATURE(AMXBF16, "amx-bf16", LEAF_7, EDX, 22, SAVE_TILE)

enum feature {
#define FEATURE(id, name, leaf, reg, bit, saved) HAS_##id,
    FEATURES(FEATURE)
#undef FEATURE
        N_FEATURES
};

static const struct {
    const char *name;
    int leaf, reg, bit;
    uint32_t saved;
} features[N_FEATURES] = {
#define FEATURE(id, name, leaf, reg, bit, saved) { name, leaf, reg, bit, saved },
    FEATURES(FEATURE)
#undef FEATURE
};

static void read_leaf(uint32_t out[N_REGISTERS], uint32_t leaf, uint32_t subleaf)
{
    unsigned a, b, c, d;
    if (__get_cpuid_count(leaf, subleaf, &a, &b, &c, &d) == 0)
        return;
    out[EAX] = a;
    out[EBX] = b;
    out[ECX] = c;
    out[EDX] = d;
}

/* CPUID is slow inside a virtual machine (tens of microseconds), so each leaf is read once. */
static cpu_words read_words(void)
{
    enum { OSXSAVE = 1 << 27 }; /* XGETBV may be executed */
    cpu_words w = { .saved = 0 };
    read_leaf(w.word[LEAF_1], 1, 0);
    read_leaf(w.word[LEAF_7], 7, 0);
    if (w.word[LEAF_7][EAX] >= 1) /* the last subleaf there is */
        read_leaf(w.word[LEAF_7_1], 7, 1);
    if ((w.word[LEAF_1][ECX] & OSXSAVE) != 0) {
        uint32_t high;
        __asm__ volatile("xgetbv" : "=a"(w.saved), "=d"(high) : "c"(0));
    }
    return w;
}

static bool has(const cpu_words *w, enum feature f)
{
    return (w->word[features[f].leaf][features[f].reg] >> features[f].bit & 1) != 0 &&
           (w->saved & features[f].saved) == features[f].saved;
}

cr_tier cr_cpu_tier(void)
{
    static const enum feature avx2[] = { HAS_AVX2, HAS_FMA, HAS_F16C };
    static const enum feature avx512[] = { HAS_AVX512F,  HAS_AVX512BW,   HAS_AVX512DQ,
                                           HAS_AVX512VL, HAS_AVX512VBMI, HAS_AVX512VNNI };
    static const enum feature amx[] = { HAS_AVX512BF16, HAS_AMXTILE, HAS_AMXINT8, HAS_AMXBF16 };
    const cpu_words w = read_words();
    for (size_t i = 0; i < CR_COUNT(avx2); i++)
        if (!has(&w, avx2[i]))
            return CR_TIER_SCALAR;
    for (size_t i = 0; i < CR_COUNT(avx512); i++)
        if (!has(&w, avx512[i]))
            return has(&w, HAS_AVXVNNI) ? CR_TIER_AVX_VNNI : CR_TIER_AVX2;
    for (size_t i = 0; i < CR_COUNT(amx); i++)
        if (!has(&w, amx[i]))
            return CR_TIER_AVX512;
    return cr_os_permits_tiles() ? CR_TIER_AMX : CR_TIER_AVX512;
}

void cr_cpu_identify(cr_cpu_id *out)
{
    uint32_t brand[3][N_REGISTERS] = { { 0 } }, first[N_REGISTERS] = { 0 }, id[N_REGISTERS] = { 0 };
    read_leaf(first, 0, 0);
    read_leaf(id, 1, 0);
    for (uint32_t i = 0; i < 3; i++)
        read_leaf(brand[i], 0x80000002 + i, 0);
    uint32_t family = id[EAX] >> 8 & 15, model = id[EAX] >> 4 & 15;
    if (family == 15)
        family += id[EAX] >> 20 & 255;
    if (family == 6 || family >= 15)
        model |= id[EAX] >> 12 & 0xf0;
    *out = (cr_cpu_id){ .family = (int)family, .model = (int)model };
    memcpy(out->vendor, &first[EBX], 4);
    memcpy(out->vendor + 4, &first[EDX], 4);
    memcpy(out->vendor + 8, &first[ECX], 4);
    char text[sizeof brand + 1] = "";
    memcpy(text, brand, sizeof brand);
    size_t begin = strspn(text, " "), end = strlen(text);
    while (end > begin && text[end - 1] == ' ')
        end--;
    for (size_t i = begin; i < end; i++) /* a name that needs no escapes, whatever a host says */
        if (text[i] < ' ' || text[i] > '~' || text[i] == '"' || text[i] == '\\')
            text[i] = '?';
    snprintf(out->name, sizeof out->name, "%.*s family %d model %d", (int)(end - begin),
             text + begin, out->family, out->model);
}

bool cr_cpu_has(cr_tier tier)
{
    if (tier == CR_TIER_SCALAR)
        return true;
    if (tier == CR_TIER_AVX_VNNI) {
        const cpu_words w = read_words();
        if (!has(&w, HAS_AVXVNNI))
            return false;
    }
    return tier <= cr_cpu_tier();
}

#elif defined(__aarch64__)

/* FEATURE(id, name, word, bit) as Linux numbers them (AT_HWCAP is word 0, AT_HWCAP2 word 1). */
#define FEATURES(FEATURE)                                                                          \
    FEATURE(ASIMD, "asimd", 0, 1)                                                                  \
    FEATURE(ASIMDHP, "asimdhp", 0, 10)                                                             \
    FEATURE(ASIMDDP, "asimddp", 0, 20)                                                             \
    FEATURE(I8MM, "i8mm", 1, 13)                                                                   \
    FEATURE(BF16, "bf16", 1, 14)                                                                   \
    FEATURE(SVE, "sve", 0, 22)                                                                     \
    FEATURE(SVE2, "sve2", 1, 1)                                                                    \
    FEATURE(SME, "sme", 1, 23)

enum feature {
#define FEATURE(id, name, word, bit) HAS_##id,
    FEATURES(FEATURE)
#undef FEATURE
        N_FEATURES
};

static const struct {
    const char *name;
    int word, bit;
} features[N_FEATURES] = {
#define FEATURE(id, name, word, bit) { name, word, bit },
    FEATURES(FEATURE)
#undef FEATURE
};

typedef struct cpu_words {
    uint64_t word[2];
} cpu_words;

static cpu_words read_words(void)
{
    cpu_words w;
    cr_os_hwcaps(w.word);
    return w;
}

static bool has(const cpu_words *w, enum feature f)
{
    return (w->word[features[f].word] >> features[f].bit & 1) != 0;
}

cr_tier cr_cpu_tier(void)
{
    const cpu_words w = read_words();
    if (!has(&w, HAS_ASIMDDP))
        return CR_TIER_NEON;
    return has(&w, HAS_I8MM) ? CR_TIER_I8MM : CR_TIER_DOTPROD;
}

#else

cr_tier cr_cpu_tier(void)
{
    return CR_TIER_SCALAR;
}

#endif

#if !defined(__x86_64__) && !defined(__i386__)

bool cr_cpu_has(cr_tier tier)
{
    return tier <= cr_cpu_tier();
}

void cr_cpu_identify(cr_cpu_id *out)
{
    *out = (cr_cpu_id){ .family = 0 };
    snprintf(out->name, sizeof out->name, "%s", cr_tier_name(cr_cpu_tier()));
}

#endif

/* Adds a word to a list of them that has `size` bytes, unless there is no room. */
static size_t add_word(char *list, size_t size, size_t room, const char *word)
{
    const size_t n = strlen(word);
    if (size + n + 2 > room)
        return size;
    if (size > 0)
        list[size++] = ' ';
    memcpy(list + size, word, n);
    return size + n;
}

void cr_cpu_features(char *out, size_t room)
{
    assert(room > 0);
    size_t size = 0;
#ifdef FEATURES
    const cpu_words w = read_words();
    for (int f = 0; f < N_FEATURES; f++)
        if (has(&w, (enum feature)f))
            size = add_word(out, size, room, features[f].name);
#else
    (void)room;
#endif
    out[size] = '\0';
}

void cr_cpu_tiers(char *out, size_t room)
{
    assert(room > 0);
    size_t size = 0;
    for (int t = 0; t < CR_TIER_COUNT; t++)
        if (cr_cpu_has((cr_tier)t))
            size = add_word(out, size, room, tier_names[t]);
    out[size] = '\0';
}
