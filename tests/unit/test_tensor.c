/* Element types: conversions exhaustively, blocks against what the gguf Python package computed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/compiler.h"
#include "data/golden_types.h"
#include "tensor/type.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static uint32_t bits_of(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return isnan(f) ? 0x7fc00000u : bits;
}

/* ---- half precision -------------------------------------------------------------------------- */

/* From the definition of the format. */
static double half_value(unsigned h)
{
    int exponent = (int)(h >> 10 & 31), mantissa = (int)(h & 1023);
    double size = exponent == 0 ? ldexp(mantissa, -24) : ldexp(1024 + mantissa, exponent - 25);
    return h & 0x8000 ? -size : size;
}

static void every_half_is_exact(void **state)
{
    (void)state;
    for (unsigned h = 0; h < 65536; h++) {
        float f = cr_f16_to_f32((uint16_t)h);
        if ((h & 0x7fff) > 0x7c00) {
            assert_true(isnan(f));
            assert_true(isnan(cr_f16_to_f32(cr_f32_to_f16(f))));
            continue;
        }
        if ((h & 0x7fff) == 0x7c00)
            assert_true(isinf(f));
        else if ((double)f != half_value(h))
            fail_msg("half %04x: expected %a, got %a", h, half_value(h), (double)f);
        assert_int_equal(signbit(f) != 0, h >> 15);
        assert_int_equal(cr_f32_to_f16(f), h);
    }
}

/* Between two neighbours everything rounds to the nearer one, and the midpoint to the even one. */
static void every_boundary_rounds_to_nearest_even(void **state)
{
    (void)state;
    for (unsigned h = 0; h < 0x7bff; h++) {
        float middle = (float)((half_value(h) + half_value(h + 1)) / 2);
        unsigned even = h % 2 == 0 ? h : h + 1;
        for (unsigned sign = 0; sign <= 0x8000; sign += 0x8000) {
            float s = sign != 0 ? -1.0f : 1.0f;
            assert_int_equal(cr_f32_to_f16(s * middle), sign | even);
            assert_int_equal(cr_f32_to_f16(s * nextafterf(middle, 0)), sign | h);
            assert_int_equal(cr_f32_to_f16(s * nextafterf(middle, INFINITY)), sign | (h + 1));
        }
    }
    assert_int_equal(cr_f32_to_f16(65519.996f), 0x7bff);
    assert_int_equal(cr_f32_to_f16(65520.0f), 0x7c00);
    assert_int_equal(cr_f32_to_f16(-1e30f), 0xfc00);
    assert_int_equal(cr_f32_to_f16(1e-45f), 0);
    assert_int_equal(cr_f32_to_f16(-1e-45f), 0x8000);
    /* A NaN whose payload is in the low bits only must not become infinity. */
    uint32_t low = 0x7f800001u;
    float nan_low;
    memcpy(&nan_low, &low, sizeof nan_low);
    assert_true((cr_f32_to_f16(nan_low) & 0x7fff) > 0x7c00);
}

static void every_bfloat_is_the_top_of_a_float(void **state)
{
    (void)state;
    for (unsigned b = 0; b < 65536; b++) {
        float f = cr_bf16_to_f32((uint16_t)b);
        int exponent = (int)(b >> 7 & 255), mantissa = (int)(b & 127);
        if (exponent == 255) {
            assert_true(mantissa != 0 ? isnan(f) : isinf(f));
            continue;
        }
        double size = exponent == 0 ? ldexp(mantissa, -133) : ldexp(128 + mantissa, exponent - 134);
        assert_true((double)f == (b & 0x8000 ? -size : size));
        assert_int_equal(signbit(f) != 0, b >> 15);
    }
}

/* ---- blocks ---------------------------------------------------------------------------------- */

static void check_blocks(cr_type type, const uint8_t *blocks, size_t n_bytes, const uint32_t *want,
                         size_t n)
{
    const cr_type_info *info = cr_type_get(type);
    assert_int_equal(cr_type_bytes(info, n), n_bytes);
    /* An odd address: src may have any alignment. Exact sizes: a sanitizer sees a step outside. */
    uint8_t *src = malloc(n_bytes + 1);
    float *dst = malloc(n * sizeof *dst);
    assert_non_null(src);
    assert_non_null(dst);
    memcpy(src + 1, blocks, n_bytes);
    info->dequantize(src + 1, dst, n);
    for (size_t i = 0; i < n; i++)
        if (bits_of(dst[i]) != want[i])
            fail_msg("%s: weight %zu: expected %08x, got %08x", info->name, i, want[i],
                     bits_of(dst[i]));
    free(src);
    free(dst);
}

static void blocks_equal_the_golden_ones(void **state)
{
    (void)state;
#define CHECK(name, a, b, seed, hash)                                                              \
    check_blocks(CR_TYPE_##name, golden_##name##_blocks, sizeof golden_##name##_blocks,            \
                 golden_##name##_floats, CR_COUNT(golden_##name##_floats));
    GOLDEN_TYPES(CHECK)
#undef CHECK
}

/* Every fourth block gets scales that are seldom met: see make-golden-types. */
static void place_halves(uint8_t *blocks, size_t block_bytes, int at, size_t offset)
{
    for (size_t i = 0; at >= 0 && i < GOLDEN_HASHED / 4; i++) {
        uint16_t half = golden_halves[(i + offset) % CR_COUNT(golden_halves)];
        uint8_t *p = blocks + (4 * i + 3) * block_bytes + (size_t)at;
        p[0] = (uint8_t)half;
        p[1] = (uint8_t)(half >> 8);
    }
}

static uint64_t hash_of_generated(cr_type type, int a, int b, uint64_t seed)
{
    const cr_type_info *info = cr_type_get(type);
    size_t n_weights = (size_t)info->weights * GOLDEN_HASHED;
    size_t n_bytes = (size_t)info->block_bytes * GOLDEN_HASHED;
    uint8_t *src = malloc(n_bytes);
    float *dst = malloc(n_weights * sizeof *dst);
    assert_non_null(src);
    assert_non_null(dst);
    for (size_t i = 0; i < n_bytes; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        src[i] = (uint8_t)(seed >> 56);
    }
    place_halves(src, (size_t)info->block_bytes, a, 0);
    place_halves(src, (size_t)info->block_bytes, b, 5);
    info->dequantize(src, dst, n_weights);
    uint64_t hash = 0xcbf29ce484222325u;
    for (size_t i = 0; i < n_weights; i++)
        for (int byte = 0; byte < 4; byte++)
            hash = (hash ^ (bits_of(dst[i]) >> 8 * byte & 255)) * 0x100000001b3u;
    free(src);
    free(dst);
    return hash;
}

static void many_blocks_hash_to_the_golden_value(void **state)
{
    (void)state;
#define CHECK(name, a, b, seed, hash)                                                              \
    if (hash_of_generated(CR_TYPE_##name, a, b, seed) != hash)                                     \
        fail_msg(#name ": the hash over %d random blocks differs", GOLDEN_HASHED);
    GOLDEN_TYPES(CHECK)
#undef CHECK
}

static void f32_is_copied(void **state)
{
    (void)state;
    const float in[3] = { 1.5f, -0.0f, 3e-45f };
    float out[3];
    cr_type_get(CR_TYPE_F32)->dequantize(in, out, 3);
    assert_memory_equal(in, out, sizeof in);
}

/* ---- the table ------------------------------------------------------------------------------- */

static void ids_find_their_types(void **state)
{
    (void)state;
    const struct {
        uint32_t id;
        cr_type type;
        const char *name;
        int weights, bytes;
    } want[] = {
        { 0, CR_TYPE_F32, "F32", 1, 4 },
        { 1, CR_TYPE_F16, "F16", 1, 2 },
        { 2, CR_TYPE_Q4_0, "Q4_0", 32, 18 },
        { 3, CR_TYPE_Q4_1, "Q4_1", 32, 20 },
        { 8, CR_TYPE_Q8_0, "Q8_0", 32, 34 },
        { 12, CR_TYPE_Q4_K, "Q4_K", 256, 144 },
        { 14, CR_TYPE_Q6_K, "Q6_K", 256, 210 },
        { 30, CR_TYPE_BF16, "BF16", 1, 2 },
        { 6, CR_TYPE_Q5_0, "Q5_0", 32, 22 },
        { 7, CR_TYPE_Q5_1, "Q5_1", 32, 24 },
        { 10, CR_TYPE_Q2_K, "Q2_K", 256, 84 },
        { 11, CR_TYPE_Q3_K, "Q3_K", 256, 110 },
        { 13, CR_TYPE_Q5_K, "Q5_K", 256, 176 },
        { 16, CR_TYPE_IQ2_XXS, "IQ2_XXS", 256, 66 },
        { 17, CR_TYPE_IQ2_XS, "IQ2_XS", 256, 74 },
        { 18, CR_TYPE_IQ3_XXS, "IQ3_XXS", 256, 98 },
        { 19, CR_TYPE_IQ1_S, "IQ1_S", 256, 50 },
        { 20, CR_TYPE_IQ4_NL, "IQ4_NL", 32, 18 },
        { 21, CR_TYPE_IQ3_S, "IQ3_S", 256, 110 },
        { 22, CR_TYPE_IQ2_S, "IQ2_S", 256, 82 },
        { 23, CR_TYPE_IQ4_XS, "IQ4_XS", 256, 136 },
        { 29, CR_TYPE_IQ1_M, "IQ1_M", 256, 56 },
        { 34, CR_TYPE_TQ1_0, "TQ1_0", 256, 54 },
        { 35, CR_TYPE_TQ2_0, "TQ2_0", 256, 66 },
        { 39, CR_TYPE_MXFP4, "MXFP4", 32, 17 },
    };
    char buf[16];
    for (size_t i = 0; i < CR_COUNT(want); i++) {
        assert_int_equal(cr_type_find(want[i].id), want[i].type);
        const cr_type_info *info = cr_type_get(want[i].type);
        assert_string_equal(info->name, want[i].name);
        assert_int_equal(info->weights, want[i].weights);
        assert_int_equal(info->block_bytes, want[i].bytes);
        assert_string_equal(cr_type_id_name(want[i].id, buf), want[i].name);
    }
    assert_int_equal(cr_type_find(9), CR_TYPE_COUNT);
    assert_int_equal(cr_type_find(UINT32_MAX), CR_TYPE_COUNT);
}

static void ids_without_code_have_names(void **state)
{
    (void)state;
    char buf[16];
    assert_string_equal(cr_type_id_name(9, buf), "Q8_1");
    assert_string_equal(cr_type_id_name(15, buf), "Q8_K");
    assert_string_equal(cr_type_id_name(27, buf), "I64");
    assert_string_equal(cr_type_id_name(40, buf), "NVFP4");
    assert_string_equal(cr_type_id_name(4, buf), "type 4"); /* an id that was withdrawn */
    assert_string_equal(cr_type_id_name(99, buf), "type 99");
    assert_string_equal(cr_type_id_name(UINT32_MAX, buf), "type 4294967295");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_half_is_exact),
        cmocka_unit_test(every_boundary_rounds_to_nearest_even),
        cmocka_unit_test(every_bfloat_is_the_top_of_a_float),
        cmocka_unit_test(blocks_equal_the_golden_ones),
        cmocka_unit_test(many_blocks_hash_to_the_golden_value),
        cmocka_unit_test(f32_is_copied),
        cmocka_unit_test(ids_find_their_types),
        cmocka_unit_test(ids_without_code_have_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
