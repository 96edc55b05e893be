/* SentencePiece's normaliser: tokenizer.ggml.precompiled_charsmap.
 *
 * A map from sequences of characters to others (full-width letters to plain ones, accents to their
 * letters, control characters to nothing, ...), as the trainer of the vocabulary has compiled it:
 *
 *     u32 bytes of the trie | trie: u32 ... | texts that sequences become, each with a NUL
 *
 * The trie is a double array of darts-clone, of which a unit is
 *
 *     bits 0-7    label: the byte that leads here; with bit 31 set no byte does
 *     bit 8       the sequence so far is in the map
 *     bit 9       bits 10-30 count in steps of 256
 *     bits 10-30  offset: child c of the node at i is at i ^ offset ^ c; the value is child 0
 *     value:      bits 0-30, where the text begins */
#ifndef CR_CHARSMAP_H
#define CR_CHARSMAP_H

#include "base/arena.h"
#include "file/gguf.h"

typedef struct cr_charsmap {
    const uint32_t *units; /* [n_units]; no units: nothing is mapped */
    size_t n_units;
    const char *texts; /* [n_texts], the last one is NUL */
    size_t n_texts;
} cr_charsmap;

/* Copies the map out of the file into the arena; empty when the file has none. */
cera_status cr_charsmap_read(cr_charsmap *map, const cr_gguf *file, cr_arena *arena,
                             cera_error *err);

/* The longest sequence in the map that `text` begins with: its size, 0 for none, and what it
 * becomes. CERA_E_FORMAT when the trie leads out of itself, which only shows here. */
cera_status cr_charsmap_find(const cr_charsmap *map, cr_str text, size_t *size, cr_str *to,
                             cera_error *err);

#endif
