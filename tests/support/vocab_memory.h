/* Work on a vocabulary while memory fails, for tests of every kind of vocabulary. */
#ifndef VOCAB_MEMORY_H
#define VOCAB_MEMORY_H

#include "support/fault_host.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* Runs work with allocation 1, 2, 3, ... failing, once or from there on, until none is reached:
 * each run that reaches it gives CERA_E_NOMEM, and nothing is left behind. Returns one more than
 * the number of runs. */
static inline size_t vocab_fail_each_allocation(fault_mode mode, const cera_source *source,
                                                cera_status (*work)(const cera_host *host,
                                                                    const cera_source *source))
{
    size_t i = 1;
    for (bool reached = true; reached; i++) {
        fault_host f;
        fault_init(&f);
        fault_allocs(&f, i, mode);
        cera_status status = work(&f.host, source);
        if (fault_check(&f) != NULL)
            fail_msg("allocation %zu: %s", i, fault_check(&f));
        reached = fault_hits(&f) > 0;
        assert_int_equal(status, reached ? CERA_E_NOMEM : CERA_OK);
        fault_done(&f);
    }
    return i;
}

#endif
