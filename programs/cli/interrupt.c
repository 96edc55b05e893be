#define _DEFAULT_SOURCE
#include "cli/interrupt.h"

#include "cli/out.h"
#include "cli/report.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <unistd.h>

static cera_session *const *watched; /* [n_watched] */
static atomic_size_t n_watched;
static volatile sig_atomic_t caught, held, is_dialogue;

static void on_signal(int signal_number)
{
    int saved = errno;
    if (held) {
        caught = signal_number;
        return;
    }
    size_t n = atomic_load(&n_watched);
    bool may_end = signal_number != SIGINT || !is_dialogue;
    if (may_end && (n == 0 || caught != 0))
        _exit(128 + signal_number);
    caught = signal_number;
    for (size_t i = 0; i < n; i++)
        cera_session_cancel(watched[i]);
    errno = saved;
}

/* A page of the mapped model could not be read: its file was cut short, or its disk failed. Nothing
 * can be computed any more, on any thread, so all that follows is write and _exit. */
static void on_bus_error(int signal_number, siginfo_t *info, void *context)
{
    static atomic_flag entered = ATOMIC_FLAG_INIT;
    (void)context;
    if (info->si_code != BUS_ADRERR) {
        /* Not a page without storage: let it end the program as it would have. */
        signal(signal_number, SIG_DFL);
        raise(signal_number);
        return;
    }
    while (atomic_flag_test_and_set(&entered)) /* another thread is at it, and ends us */
        pause();
    out_rescue();
    report_changed_model();
    _exit(EXIT_RUNTIME);
}

void interrupt_start(void)
{
    static const int signals[] = { SIGINT, SIGTERM, SIGHUP };
    struct sigaction action = { .sa_handler = on_signal };
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++) {
        /* A shell that starts us in the background ignores Ctrl-C for us, and nohup the hangup:
         * leave it so. */
        struct sigaction old;
        if (sigaction(signals[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN)
            sigaction(signals[i], &action, NULL);
    }
    struct sigaction bus = { .sa_sigaction = on_bus_error, .sa_flags = SA_SIGINFO };
    sigemptyset(&bus.sa_mask);
    sigaction(SIGBUS, &bus, NULL);
    /* A reader that goes away and a file that may not grow are then errors of write, which have
     * their own rules. */
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
}

void interrupt_watch_all(cera_session *const *sessions, size_t n)
{
    atomic_store(&n_watched, 0); /* the list and its length change together */
    watched = sessions;
    atomic_store(&n_watched, n);
}

void interrupt_watch(cera_session *session)
{
    static cera_session *one;
    interrupt_watch_all(NULL, 0);
    one = session;
    interrupt_watch_all(&one, session != NULL);
}

void interrupt_hold(bool on)
{
    held = on;
}

void interrupt_dialogue(bool on)
{
    is_dialogue = on;
}

int interrupt_exit_code(void)
{
    return caught == 0 ? 0 : 128 + (int)caught;
}

void interrupt_clear(void)
{
    caught = 0;
}
