/* Products of panel8.h without VNNI: pairs of bytes multiply to words, which add up as words for as
 * long as they fit and then, in pairs, become dwords.
 *
 * Two products are at most 2 * 127 * byte. Of bytes up to 15 a word holds all eight pairs of its
 * lane in a block, up to 31 four, up to 63 two. Bytes of Q8_0 and IQ4, up to 255, do not fit once:
 * these weights and their activations become words. Other ways take more instructions: nibbles
 * multiplied apart 33 for 256 products, signs moved from one factor to the other 32, words 31. */
#include "backend/cpu/x86/panel8.h"

enum { COLUMNS = 4 }; /* whose products alternate */

CR_INLINE bool is_wide(const weights *type)
{
    return 2 * 127 * type->most > INT16_MAX;
}

/* Products in a row that a word holds, of those that have the same scale. */
CR_INLINE size_t run_of(const weights *type)
{
    return CR_MIN((size_t)(INT16_MAX / (2 * 127 * type->most)), type->groups ? (size_t)4 : 8);
}

/* Scales twice in a lane, to be factors of pairs of words, and in pairs what the offset comes
 * to. */
CR_INLINE void finish_groups(panel_block *block, short offset)
{
    const __m128i word = _mm_setr_epi8(0, 1, 0, 1, 4, 5, 4, 5, 8, 9, 8, 9, 12, 13, 12, 13);
    const __m256i both = block->scale[0], first = _mm256_broadcastsi128_si256(word);
    block->scale[0] = _mm256_shuffle_epi8(both, first);
    block->scale[1] = _mm256_shuffle_epi8(both, _mm256_add_epi8(first, _mm256_set1_epi8(2)));
    if (offset != 0)
        block->pairs = _mm256_mullo_epi16(both, _mm256_set1_epi16((short)-offset));
}

/* Bytes become words, without the offset: [32 / 2][row][2]. */
CR_INLINE void finish_wide(panel_block *block, short offset)
{
    const __m128i word = _mm_setr_epi8(0, -1, 1, -1, 4, -1, 5, -1, 8, -1, 9, -1, 12, -1, 13, -1);
    const __m256i first = _mm256_broadcastsi128_si256(word);
    const __m256i second = _mm256_add_epi8(
        first, _mm256_set1_epi16(2)); /* of the words' low bytes; the upper ones stay negative */
    const __m256i minus = _mm256_set1_epi16(offset);
    for (int k = 8; k-- > 0;) {
        const __m256i bytes = block->w[k];
        block->w[2 * k] = _mm256_sub_epi16(_mm256_shuffle_epi8(bytes, first), minus);
        block->w[2 * k + 1] = _mm256_sub_epi16(_mm256_shuffle_epi8(bytes, second), minus);
    }
}

CR_INLINE void finish_panel(panel_block *panel, size_t n_blocks, const weights *type)
{
    for (size_t b = 0; b < n_blocks; b++) {
        if (type->groups)
            finish_groups(&panel[b], type->offset);
        if (is_wide(type))
            finish_wide(&panel[b], type->offset);
    }
}

typedef __m256i tile_dots[COLUMNS][PANELS];

/* Weights times activations, in groups times their scales. */
CR_INLINE void dot_bytes(tile_dots dot, const panel_block *const block[PANELS], size_t n_panels,
                         const int8_t *const q[COLUMNS], size_t n_columns, const weights *type)
{
    const size_t run = run_of(type);
    CR_UNROLL
    for (size_t first = 0; first < 8; first += run) {
        __m256i words[COLUMNS][PANELS];
        CR_UNROLL
        for (size_t k = first; k < first + run; k++)
            CR_UNROLL
        for (size_t c = 0; c < n_columns; c++) {
            const __m256i a = four(q[c] + k / 4 * 64 + k % 4 * 4);
            CR_UNROLL
            for (size_t p = 0; p < n_panels; p++) {
                const __m256i pairs = _mm256_maddubs_epi16(block[p]->w[k], a);
                words[c][p] = k == first ? pairs : _mm256_add_epi16(words[c][p], pairs);
                CR_IN_ORDER(words[c][p]);
            }
        }
        CR_UNROLL
        for (size_t c = 0; c < n_columns; c++)
            CR_UNROLL
        for (size_t p = 0; p < n_panels; p++) {
            const __m256i factor = type->groups ? block[p]->scale[first / 4] : _mm256_set1_epi16(1);
            const __m256i dwords = _mm256_madd_epi16(words[c][p], factor);
            dot[c][p] = first == 0 ? dwords : _mm256_add_epi32(dot[c][p], dwords);
        }
    }
}

/* The same for words. */
CR_INLINE void dot_words(tile_dots dot, const panel_block *const block[PANELS], size_t n_panels,
                         const int8_t *const q[COLUMNS], size_t n_columns)
{
    int16_t words[COLUMNS][32];
    CR_UNROLL
    for (size_t c = 0; c < n_columns; c++) {
        CR_UNROLL
        for (size_t half = 0; half < 2; half++) {
            const __m128i bytes = _mm_load_si128((const __m128i *)(q[c] + 64 * half));
            _mm256_storeu_si256((__m256i *)(words[c] + 16 * half), _mm256_cvtepi8_epi16(bytes));
        }
        CR_UNROLL
        for (size_t p = 0; p < n_panels; p++)
            dot[c][p] = _mm256_setzero_si256();
    }
    for (size_t k = 0; k < 16; k++) {
        CR_UNROLL
        for (size_t c = 0; c < n_columns; c++) {
            const __m256i a = four(words[c] + 2 * k);
            CR_UNROLL
            for (size_t p = 0; p < n_panels; p++) {
                dot[c][p] = _mm256_add_epi32(dot[c][p], _mm256_madd_epi16(block[p]->w[k], a));
                CR_IN_ORDER(dot[c][p]);
            }
        }
    }
}

/* sums: of the activations of both halves, as words. */
CR_INLINE void multiply_block(__m256 sum[COLUMNS][PANELS], const panel_block *const block[PANELS],
                              size_t n_panels, const int8_t *const q[COLUMNS],
                              const __m256i sums[COLUMNS], size_t n_columns, const weights *type)
{
    tile_dots dot;
    if (is_wide(type))
        dot_words(dot, block, n_panels, q, n_columns);
    else
        dot_bytes(dot, block, n_panels, q, n_columns, type);
    CR_UNROLL
    for (size_t c = 0; c < n_columns; c++)
        CR_UNROLL
    for (size_t p = 0; p < n_panels; p++) {
        const __m256i minus_offset =
            type->groups ? block[p]->pairs : _mm256_set1_epi16((short)-type->offset);
        if (type->offset != 0 && !is_wide(type))
            dot[c][p] = _mm256_add_epi32(dot[c][p], _mm256_madd_epi16(minus_offset, sums[c]));
        sum[c][p] = _mm256_cvtepi32_ps(dot[c][p]);
    }
}

#include "backend/cpu/x86/matmul_panel8.h"

PANEL_TYPES(MATMUL, avx2)
