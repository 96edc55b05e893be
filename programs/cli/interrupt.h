/* Ctrl-C, SIGTERM and SIGHUP. With a session at work the first signal cancels it, so that the text
 * so far is kept; a second one, or one without a session, ends the program at once. */
#ifndef INTERRUPT_H
#define INTERRUPT_H

#include "cera.h"

#include <stdbool.h>
#include <stddef.h>

void interrupt_start(void);
/* The session that a signal cancels; NULL when none is at work. */
void interrupt_watch(cera_session *session);
/* The same for n at once; the list is kept. Of a NULL in it the signal is noted. */
void interrupt_watch_all(cera_session *const *sessions, size_t n);
/* Work that looks at interrupt_exit_code itself, several times a second, and ends by itself: while
 * it is on, signals are noted and nothing else. */
void interrupt_hold(bool on);
/* Somebody is at the keyboard of a dialogue: while it is on, Ctrl-C cancels the session or is noted,
 * however often it comes, and the dialogue says what ends the program. */
void interrupt_dialogue(bool on);
/* 128 and its number after a signal, else 0. */
int interrupt_exit_code(void);
/* Forgets a signal that has been dealt with. */
void interrupt_clear(void);

#endif
