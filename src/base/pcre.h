/* PCRE2 with the host's memory: the two functions that pcre2_general_context_create takes. */
#ifndef CR_PCRE_H
#define CR_PCRE_H

#include "base/host.h"

typedef struct cr_pcre_memory {
    cr_host *host;
    cr_mem purpose;
    bool *refused; /* set where there was none; NULL: nobody asks */
} cr_pcre_memory;

/* ctx: a cr_pcre_memory */
void *cr_pcre_get(size_t size, void *ctx);
void cr_pcre_release(void *ptr, void *ctx);

#endif
