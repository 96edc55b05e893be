#include "grammar/grammar.h"

#include "grammar/gbnf.h"

cera_grammar *cr_grammar_retain(cera_grammar *grammar)
{
    if (grammar)
        atomic_fetch_add(&grammar->n_references, 1);
    return grammar;
}

void cr_grammar_release(cera_grammar *grammar)
{
    if (!grammar || atomic_fetch_sub(&grammar->n_references, 1) > 1)
        return;
    for (int i = 0; i < CR_GRAMMAR_IDLE; i++)
        cr_matcher_free(atomic_load(&grammar->idle[i]));
    cr_automaton_free(grammar->automaton);
    cr_free(&grammar->host, CR_MEM_OBJECT, grammar->text, grammar->n_text + 1);
    /* The host is part of what goes. */
    cera_allocator allocator = grammar->host.allocator;
    allocator.release(allocator.ctx, grammar, sizeof *grammar);
}

cera_status cr_grammar_new(const cr_grammar_source *source, const cera_host *host,
                           cera_grammar **out, cera_error *err)
{
    cr_host first; /* for the object itself, whose own host does not exist yet */
    CR_TRY(cr_host_set(&first, host, err));
    cera_grammar *g = cr_alloc_zero(&first, CR_MEM_OBJECT, sizeof *g);
    if (!g)
        return cr_fail_nomem(err, sizeof *g, "a grammar");
    atomic_init(&g->n_references, 1);
    for (int i = 0; i < CR_GRAMMAR_IDLE; i++)
        atomic_init(&g->idle[i], NULL);
    g->table = source->table;
    cr_gbnf_source gbnf = {
        .text = source->text,
        .vocab = source->vocab,
        .max_size = source->max_size,
        .is_made = source->is_made,
    };
    cera_status status = cr_host_set(&g->host, host, err);
    if (status != CERA_OK) {
        cr_free(&first, CR_MEM_OBJECT, g, sizeof *g);
        return status;
    }
    status = cr_gbnf_compile(&gbnf, &g->host, &g->automaton, err);
    if (status == CERA_OK) {
        g->text = cr_alloc(&g->host, CR_MEM_OBJECT, source->text.size + 1);
        if (!g->text)
            status = cr_fail_nomem(err, source->text.size + 1, "a grammar");
    }
    if (status != CERA_OK) {
        cr_grammar_release(g);
        return status;
    }
    memcpy(g->text, source->text.data, source->text.size);
    g->text[source->text.size] = '\0';
    g->n_text = source->text.size;
    *out = g;
    return CERA_OK;
}

cera_status cr_grammar_take(cera_grammar *grammar, cr_matcher **out, cera_error *err)
{
    for (int i = 0; i < CR_GRAMMAR_IDLE; i++) {
        cr_matcher *matcher = atomic_exchange(&grammar->idle[i], NULL);
        if (!matcher)
            continue;
        cera_status status = cr_matcher_reset(matcher, err);
        if (status == CERA_OK)
            *out = matcher;
        else
            cr_matcher_free(matcher);
        return status;
    }
    return cr_matcher_new(grammar->automaton, grammar->table, &grammar->host, out, err);
}

void cr_grammar_give(cera_grammar *grammar, cr_matcher *matcher)
{
    for (int i = 0; i < CR_GRAMMAR_IDLE && matcher; i++) {
        cr_matcher *none = NULL;
        if (atomic_compare_exchange_strong(&grammar->idle[i], &none, matcher))
            return;
    }
    cr_matcher_free(matcher);
}
