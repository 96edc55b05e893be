/* Quantisers: bytes against what the gguf Python package makes, errors against ggml's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/compiler.h"
#include "data/golden_quants.h"
#include "tensor/type.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The weights of scripts/make-golden-quants. */
static float *generate(void)
{
    float *x = malloc(GOLDEN_N * sizeof *x);
    assert_non_null(x);
    uint64_t state = GOLDEN_SEED;
    for (int i = 0; i < GOLDEN_N; i++) {
        int total = -510;
        for (int k = 0; k < 4; k++) {
            state = state * 6364136223846793005u + 1442695040888963407u;
            total += (int)(state >> 56);
        }
        x[i] = ldexpf((float)total, -(12 + i / 64 % 5)) * (i % 97 == 0 ? 8.0f : 1.0f);
        if (i >= 256 && i < 320)
            x[i] = 0;
        if (i >= 512 && i < 768)
            x[i] = fabsf(x[i]);
    }
    return x;
}

/* Into exactly sized memory at an odd address. */
static uint8_t *quantize(cr_type type, const float *x, size_t n, size_t *n_bytes)
{
    const cr_type_info *info = cr_type_get(type);
    *n_bytes = cr_type_bytes(info, n);
    uint8_t *out = malloc(*n_bytes + 1);
    assert_non_null(out);
    info->quantize(x, out + 1, n);
    return out;
}

static uint64_t fnv(const uint8_t *bytes, size_t n)
{
    uint64_t hash = 0xcbf29ce484222325u;
    for (size_t i = 0; i < n; i++)
        hash = (hash ^ bytes[i]) * 0x100000001b3u;
    return hash;
}

static double rms_error(cr_type type, const float *x, size_t n)
{
    size_t n_bytes;
    uint8_t *blocks = quantize(type, x, n, &n_bytes);
    float *y = malloc(n * sizeof *y);
    assert_non_null(y);
    cr_type_get(type)->dequantize(blocks + 1, y, n);
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += ((double)y[i] - (double)x[i]) * ((double)y[i] - (double)x[i]);
    free(y);
    free(blocks);
    return sqrt(sum / (double)n);
}

static void bytes_hash_to_the_golden_value(void **state)
{
    (void)state;
    float *x = generate();
#define CHECK(name, hash)                                                                          \
    {                                                                                              \
        size_t n;                                                                                  \
        uint8_t *blocks = quantize(CR_TYPE_##name, x, GOLDEN_N, &n);                               \
        if (fnv(blocks + 1, n) != hash)                                                            \
            fail_msg(#name ": the bytes differ");                                                  \
        free(blocks);                                                                              \
    }
    GOLDEN_EXACT(CHECK)
#undef CHECK
    free(x);
}

static void searches_lose_no_more_than_ggml(void **state)
{
    (void)state;
    float *x = generate();
#define CHECK(name, golden)                                                                        \
    {                                                                                              \
        double error = rms_error(CR_TYPE_##name, x, GOLDEN_N);                                     \
        print_message("%-7s %.3f of ggml's error\n", #name, error / golden);                       \
        if (error > 1.01 * golden || error < 0.3 * golden)                                         \
            fail_msg(#name ": expected an error of about %g, found %g", golden, error);            \
    }
    GOLDEN_SEARCHED(CHECK)
#undef CHECK
    free(x);
}

/* A block of one value comes back as that, as far as its levels and halves allow. */
static void blocks_of_one_value_survive(void **state)
{
    (void)state;
    const float values[] = { 0.0f, 0.5f, -2.0f };
    float x[256], y[256];
    uint8_t blocks[256 * 4];
    for (int type = 0; type < CR_TYPE_COUNT; type++) {
        const cr_type_info *info = cr_type_get((cr_type)type);
        for (size_t v = 0; v < CR_COUNT(values) && info->quantize != NULL; v++) {
            for (size_t i = 0; i < 256; i++)
                x[i] = values[v];
            info->quantize(x, blocks, 256);
            info->dequantize(blocks, y, 256);
            for (size_t i = 0; i < 256; i++)
                if (fabsf(y[i] - x[i]) > fabsf(x[i]) * 0.03f)
                    fail_msg("%s: expected %g, found %g", info->name, (double)x[i], (double)y[i]);
        }
    }
}

/* The largest and the smallest floats give finite weights, and no undefined step on the way. */
static void extremes_stay_finite(void **state)
{
    (void)state;
    const float sizes[] = { CR_QUANTIZE_MAX, 1e-3f, 6e-8f, 1e-30f, FLT_MIN, 1e-45f };
    float x[256], y[256];
    uint8_t blocks[256 * 4];
    for (int type = 0; type < CR_TYPE_COUNT; type++) {
        const cr_type_info *info = cr_type_get((cr_type)type);
        for (size_t s = 0; s < CR_COUNT(sizes) && info->quantize != NULL; s++) {
            for (size_t i = 0; i < 256; i++)
                x[i] = i % 7 == 0 ? sizes[s] : i % 5 == 0 ? -sizes[s] : (float)(i % 3) * 1e-4f;
            info->quantize(x, blocks, 256);
            info->dequantize(blocks, y, 256);
            for (size_t i = 0; i < 256; i++)
                if (!isfinite(y[i]))
                    fail_msg("%s: size %g: weight %zu is %g", info->name, (double)sizes[s], i,
                             (double)y[i]);
        }
    }
}

/* Three levels: weights that are exactly -d, 0 and d, as such models have them. */
static void ternary_weights_are_exact(void **state)
{
    (void)state;
    float x[256], y[256];
    uint8_t blocks[256];
    for (size_t i = 0; i < 256; i++)
        x[i] = 0.375f * (float)((int)(i * i % 3) - (i % 5 == 0));
    for (size_t t = 0; t < 2; t++) {
        const cr_type_info *info = cr_type_get(t == 0 ? CR_TYPE_TQ1_0 : CR_TYPE_TQ2_0);
        info->quantize(x, blocks, 256);
        info->dequantize(blocks, y, 256);
        assert_memory_equal(x, y, sizeof x);
    }
}

static void bfloat_rounds_to_nearest_even(void **state)
{
    (void)state;
    assert_int_equal(cr_f32_to_bf16(1.0f), 0x3f80);
    assert_int_equal(cr_f32_to_bf16(1.0f + ldexpf(1, -8)), 0x3f80); /* a tie, down to even */
    assert_int_equal(cr_f32_to_bf16(1.0f + ldexpf(3, -8)), 0x3f82); /* a tie, up to even */
    assert_int_equal(cr_f32_to_bf16(1.0f + ldexpf(1, -8) + ldexpf(1, -20)), 0x3f81);
    assert_int_equal(cr_f32_to_bf16(-FLT_MAX), 0xff80);
    assert_int_equal(cr_f32_to_bf16(INFINITY), 0x7f80);
    assert_true((cr_f32_to_bf16(NAN) & 0x7fff) > 0x7f80);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_hash_to_the_golden_value),
        cmocka_unit_test(searches_lose_no_more_than_ggml),
        cmocka_unit_test(blocks_of_one_value_survive),
        cmocka_unit_test(extremes_stay_finite),
        cmocka_unit_test(ternary_weights_are_exact),
        cmocka_unit_test(bfloat_rounds_to_nearest_even),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
