/* Which element type each tensor of a quantised file gets.
 *
 * A file type such as "Q4_K_M" names a mixture: most tensors get its base type, those that matter
 * more a better one. The mixtures are those of llama.cpp, so that sizes agree. */
#ifndef CR_RECIPE_H
#define CR_RECIPE_H

#include "file/gguf.h"

typedef struct cr_file_type {
    const char *name;
    cr_type base;
} cr_file_type;

/* By name, in any case; NULL when files of that type cannot be made here. */
const cr_file_type *cr_recipe_find(const char *name);
/* An element type that can be made, likewise; CR_TYPE_COUNT when there is none of that name. */
cr_type cr_recipe_find_type(const char *name);
/* The i-th name, NULL behind the last. */
const char *cr_recipe_name(size_t i);

typedef struct cr_recipe_options {
    cr_type output, embedding; /* CR_TYPE_COUNT: as the mixture says */
    bool pure;                 /* the base type for all */
    bool keep_output;          /* output.weight stays as it is */
} cr_recipe_options;

typedef struct cr_recipe cr_recipe;
/* Looks at the file's hyper-parameters and tensor names. The file must outlive the recipe. */
cera_status cr_recipe_new(const cr_gguf *file, const cr_file_type *type,
                          const cr_recipe_options *options, cr_host *host, cr_recipe **out,
                          cera_error *err);
void cr_recipe_free(cr_recipe *recipe);

/* The type of tensor i in the new file. *forced_by_shape: it is not the intended one, because rows
 * are no multiple of that one's block. Tensors of unknown type stay as they are: CR_TYPE_COUNT. */
cr_type cr_recipe_type(const cr_recipe *recipe, size_t i, bool *forced_by_shape);

#endif
