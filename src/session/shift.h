/* Dropping tokens from the middle of a session, so that it can go on when its context is full.
 *
 *     before   0 .. n_keep .. n_keep + n_drop .. position
 *     after    0 .. n_keep ..................... position - n_drop
 *
 * The tokens behind keep their keys and values, which have seen the dropped ones, and come to lower
 * positions: keys are turned by the difference. That difference is always taken from where a key
 * was computed, so shifting often is as exact as shifting once; the pages that have these keys are
 * held. */
#ifndef CR_SHIFT_H
#define CR_SHIFT_H

#include "session/session.h"

/* See cera_session_shift. */
cera_status cr_session_shift(cr_session *session, size_t n_keep, size_t n_drop, cera_error *err);

/* How many tokens to drop behind the first n_keep, to go on when the context is full: half of them;
 * 0 when there are fewer than two. */
size_t cr_session_surplus(const cr_session *session, size_t n_keep);
/* Drops them, by shifting where that may be, by computing what is left again where not. */
cera_status cr_session_make_room(cr_session *session, size_t n_keep, cera_error *err);

#endif
