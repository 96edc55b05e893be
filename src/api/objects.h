/* Public objects that others embed or hand out. */
#ifndef CR_API_OBJECTS_H
#define CR_API_OBJECTS_H

#include "engine/engine.h"
#include "grammar/grammar.h"
#include "model/adapter.h"

/* A public vocabulary. One that was opened alone has its own host. One that an engine lends is a
 * member of the engine, with `host` pointing to the engine's; it must not be passed to
 * cera_vocab_free. */
struct cera_vocab {
    cr_host *host;
    cr_vocab *vocab;
    cr_host own_host;                /* unused in a lent one */
    _Atomic(cr_token_table *) table; /* for grammars; NULL until the first one is made */
};

struct cera_engine {
    atomic_int n_references; /* the opener's, each session's, each retain's */
    cr_engine *core;
    cera_vocab vocab;
};

struct cera_adapter {
    atomic_int n_references;
    cera_engine *engine; /* retained */
    cr_adapter *core;
};

struct cera_session {
    cera_engine *engine; /* retained */
    cr_session *core;
    bool is_busy; /* in a call that runs the sink */
};

#endif
