#define _DEFAULT_SOURCE
#include "cli/interrupt.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <unistd.h>

static _Atomic(cera_session *) watched;
static volatile sig_atomic_t caught;

static void on_signal(int signal_number)
{
    int saved = errno;
    cera_session *session = atomic_load(&watched);
    if (session == NULL || caught != 0)
        _exit(128 + signal_number);
    caught = signal_number;
    cera_session_cancel(session);
    errno = saved;
}

void interrupt_start(void)
{
    static const int signals[] = { SIGINT, SIGTERM };
    struct sigaction action = { .sa_handler = on_signal };
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++) {
        /* A shell that starts us in the background ignores Ctrl-C for us: leave it so. */
        struct sigaction old;
        if (sigaction(signals[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN)
            sigaction(signals[i], &action, NULL);
    }
    /* A reader that goes away is then an error of write, which has its own rule. */
    signal(SIGPIPE, SIG_IGN);
}

void interrupt_watch(cera_session *session)
{
    atomic_store(&watched, session);
}

int interrupt_exit_code(void)
{
    return caught == 0 ? 0 : 128 + (int)caught;
}
