/* Values of modules by patterns of their names, as PEFT's rank_pattern and alpha_pattern give them:
 * an object whose members are regular expressions. One fits a module when it matches all of its
 * name, or all behind a point; the first that fits counts.
 *
 *     { "q_proj": 8, "layers\\.[0-3]\\.mlp\\..*": 2, "^model\\.embed_tokens": 4 } */
#ifndef CR_NAME_PATTERN_H
#define CR_NAME_PATTERN_H

#include "base/pcre.h"
#include "convert/folder.h"

typedef struct cr_name_patterns {
    const char *path, *name; /* of the folder and the object, for errors */
    cr_pcre_memory memory;
    bool refused;            /* memory */
    void *context, *match;   /* PCRE2's */
    void **codes;            /* [n] */
    const cr_json **members; /* [n] */
    size_t n;
} cr_name_patterns;

/* The member of the configuration that has this name, which is kept as the folder is; none of them
 * where there is no such member. It must not move until cr_name_patterns_done, which is due in any
 * case. Fails with CERA_E_UNSUPPORTED naming a pattern that PCRE2 does not read. */
cera_status cr_name_patterns_init(cr_name_patterns *patterns, cr_folder *folder,
                                  const cr_json *config, const char *name, cera_error *err);
void cr_name_patterns_done(cr_name_patterns *patterns);
/* *out: the pattern that fits, with its value, or NULL. Fails with CERA_E_UNSUPPORTED where one
 * takes too long. */
cera_status cr_name_patterns_find(cr_name_patterns *patterns, cr_str module, const cr_json **out,
                                  cera_error *err);

#endif
