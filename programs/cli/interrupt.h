/* Ctrl-C and SIGTERM. With a session at work the first signal cancels it, so that the text so far
 * is kept; a second one, or one without a session, ends the program at once. */
#ifndef INTERRUPT_H
#define INTERRUPT_H

#include "cera.h"

void interrupt_start(void);
/* The session that a signal cancels; NULL when none is at work. */
void interrupt_watch(cera_session *session);
/* 130 or 143 after a signal, else 0. */
int interrupt_exit_code(void);

#endif
