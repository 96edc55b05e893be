/* What Hugging Face calls things, architecture by architecture, and what GGUF calls them. */
#ifndef CR_HF_ARCH_H
#define CR_HF_ARCH_H

#include "convert/folder.h"

/* What is done to the values of a tensor besides changing its type. */
typedef enum cr_hf_change {
    CR_HF_AS_IS,
    CR_HF_PAIRS_Q, /* rows of a head from halves to pairs, as rotation in pairs wants them */
    CR_HF_PAIRS_K,
    CR_HF_PLUS_ONE, /* norms that scale by 1 + weight */
    CR_HF_SQUEEZE,  /* [n][1][k] -> [n][k] */
    CR_HF_HALF_0,   /* the first half of the rows: [2 n][k] -> [n][k], of every expert */
    CR_HF_HALF_1,
    CR_HF_COLUMN,  /* [n] -> [n][1] */
    CR_HF_NEG_EXP, /* likewise, and x becomes -exp(x): logarithms of decays */
    CR_HF_GROUPS,  /* [n] -> [n_group][n / n_group] */
} cr_hf_change;

typedef struct cr_hf_arch cr_hf_arch;

/* By the first of config.json's "architectures", and by what kind of it config.json describes; NULL
 * when it is not known. */
const cr_hf_arch *cr_hf_find(cr_str name, const cr_json *config);
/* By general.architecture, and by whether the model has experts: each of those that become one,
 * NULL before the first and behind the last. */
const cr_hf_arch *cr_hf_next(const cr_hf_arch *before, const char *gguf, bool has_experts);
/* general.architecture */
const char *cr_hf_name(const cr_hf_arch *arch);
/* Whether texts get no blank before them. */
bool cr_hf_no_space_prefix(const cr_hf_arch *arch);

/* The keys below "<architecture>.". Fails with CERA_E_FORMAT naming the member that is missing. */
cera_status cr_hf_put_keys(const cr_hf_arch *arch, const cr_folder *folder, cr_gguf_writer *w,
                           cera_error *err);

/* What becomes of a tensor. */
typedef struct cr_hf_target {
    char name[128]; /* GGUF's; "" when the tensor has no place in a GGUF file */
    cr_hf_change change;
    int expert; /* it is this one's part of a stack of that name; -1: it is all of it */
} cr_hf_target;
/* How many targets a tensor has, at most 2; 0 when it is not known. */
int cr_hf_targets(const cr_hf_arch *arch, cr_str name, cr_hf_target out[2]);

/* A tensor that is computed from config.json: the factors of scaled rotations. */
enum { CR_HF_MAX_EXTRA = 2, CR_HF_MAX_FACTORS = 1024 };
typedef struct cr_hf_extra {
    const char *name;
    size_t n;
    float values[CR_HF_MAX_FACTORS];
} cr_hf_extra;
cera_status cr_hf_extra_tensors(const cr_hf_arch *arch, const cr_folder *folder, cr_hf_extra *out,
                                size_t *n, cera_error *err);

typedef struct cr_hf_heads {
    uint32_t n_head, n_head_kv; /* 0 where nothing attends */
    uint32_t n_group;           /* of a state space's channels; 1 where there is none */
} cr_hf_heads;
cera_status cr_hf_heads_of(const cr_hf_arch *arch, const cr_folder *folder, cr_hf_heads *out,
                           cera_error *err);

#endif
