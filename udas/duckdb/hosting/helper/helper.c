/* Starts the helper process, detects its end, and restarts it. */
#define _GNU_SOURCE
#include "helper.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../../rowblock/fork_safe.h"
#include "../../emit.h"
#include "../../training/interrupt.h"
#include "channel.h"

extern char **environ;

/* The descriptor of the channel in the helper. */
#define CHANNEL 3
#define ABOVE 10

static const char CODE[] = "import os, sys\n"
                           "try:\n"
                           "    from tuskml.databases.hosted import serve\n"
                           "    serve(3, sys.argv[1])\n"
                           "except BaseException as error:\n"
                           "    said = f'{type(error).__name__}: {error}'.split('\\n')[0]\n"
                           "    os.write(3, said.encode(errors='replace')[:1000])\n";

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t reaped = PTHREAD_COND_INITIALIZER;
static helper *current;
static char *executable, *extension;

TUSK_FORK_SAFE(hold_in_forks, lock)

/* --- all below with the lock held --- */

static int start_process(pid_t *process, int end) {
    char *const command[] = {executable, "-P", "-c", (char *)CODE, extension, NULL};
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t how;
    sigset_t none, usual;
    sigemptyset(&none);
    sigemptyset(&usual);
    sigaddset(&usual, SIGINT);
    sigaddset(&usual, SIGTERM);
    sigaddset(&usual, SIGCHLD);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, end, CHANNEL);
    posix_spawnattr_init(&how);
    /* A group of its own: Ctrl-C in a terminal is for the client, which passes it on. */
    posix_spawnattr_setflags(&how, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK |
                                       POSIX_SPAWN_SETSIGDEF);
    posix_spawnattr_setpgroup(&how, 0);
    posix_spawnattr_setsigmask(&how, &none);
    posix_spawnattr_setsigdefault(&how, &usual);
    int failed = posix_spawn(process, executable, &actions, &how, command, environ);
    posix_spawnattr_destroy(&how);
    posix_spawn_file_actions_destroy(&actions);
    return failed;
}

/* Waits for a helper's first message; false, with the message, if it does not say that the
   helper is ready. */
static bool is_ready(int channel, char *said, size_t room) {
    ssize_t n;
    do
        n = recv(channel, said, room - 1, 0);
    while (n < 0 && errno == EINTR);
    said[n > 0 ? n : 0] = 0;
    return strcmp(said, READY) == 0;
}

/* Waits for the end of a process that is ending; -1 if the client has already reaped it. */
static int status_of(pid_t process) {
    int status = -1;
    pid_t found;
    do
        found = waitpid(process, &status, 0);
    while (found < 0 && errno == EINTR);
    return found == process ? status : -1;
}

static void drop(helper *h) {
    if (--h->users)
        return;
    close(h->channel);
    free(h);
}

/* Waits for the end of a helper in a thread, so that a helper that ends between trainings
 * leaves no zombie. The process exists until the lock is held, so that no other process is
 * killed. */
static void *reap(void *given) {
    helper *h = given;
    siginfo_t ended;
    while (waitid(P_PID, (id_t)h->process, &ended, WEXITED | WNOWAIT) < 0 && errno == EINTR) {
    }
    pthread_mutex_lock(&lock);
    h->status = status_of(h->process);
    h->reaped = true;
    pthread_cond_broadcast(&reaped);
    drop(h);
    pthread_mutex_unlock(&lock);
    return NULL;
}

/* The thread blocks signals, which belong to the client. */
static int start_reaping(helper *h) {
    pthread_t thread;
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = pthread_create(&thread, NULL, reap, h);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!failed)
        pthread_detach(thread);
    return failed;
}

static void retire(helper *h) {
    h->users++;
    if (h->client == getpid() && !h->reaped)
        kill(h->process, SIGKILL);
    while (h->client == getpid() && !h->reaped)
        pthread_cond_wait(&reaped, &lock); /* others may retire it meanwhile */
    h->over = true;
    if (current == h) {
        current = NULL;
        h->users--; /* not the last */
    }
    drop(h);
}

static helper *start(char *why, size_t room) {
    int ends[2], failed = 0, end = -1;
    pid_t process;
    char said[1024] = "";
    helper *h = calloc(1, sizeof *h);
    if (!h || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
        snprintf(why, room, "no helper process can be started: %s", strerror(errno));
        free(h);
        return NULL;
    }
    end = fcntl(ends[1], F_DUPFD_CLOEXEC, ABOVE);
    failed = end < 0 ? errno : start_process(&process, end);
    close(ends[1]);
    if (end >= 0)
        close(end);
    if (!failed && is_ready(ends[0], said, sizeof said)) {
        *h = (helper){.channel = ends[0], .process = process, .client = getpid(), .users = 2};
        int no_thread = start_reaping(h);
        if (!no_thread)
            return h;
        snprintf(said, sizeof said, "%s", strerror(no_thread));
    }
    close(ends[0]);
    free(h);
    if (!failed) {
        kill(process, SIGKILL);
        status_of(process);
    }
    const char *reason = failed ? strerror(failed) : said[0] ? said : "it ended at once";
    snprintf(why, room,
             "%.300s does not start as the helper process that trains (%.500s): run "
             "`tuskml install` again",
             executable, reason);
    return NULL;
}

/* Whether the other end of the channel is closed. A fork of the client has a copy of its end,
 * but no helper. */
static bool is_over(const helper *h) {
    struct pollfd channel = {.fd = h->channel};
    return h->over || h->reaped || h->client != getpid() ||
           (poll(&channel, 1, 0) > 0 && (channel.revents & (POLLHUP | POLLERR)));
}

/* --- --- */

helper *helper_take(char *why, size_t room) {
    pthread_mutex_lock(&lock);
    if (current && is_over(current))
        retire(current);
    if (!current)
        current = start(why, room);
    helper *h = current;
    if (h)
        h->users++;
    pthread_mutex_unlock(&lock);
    return h;
}

void helper_give(helper *h) {
    pthread_mutex_lock(&lock);
    drop(h);
    pthread_mutex_unlock(&lock);
}

void helper_end(helper *h, char *why, size_t room) {
    char how[128] = "";
    pthread_mutex_lock(&lock);
    retire(h);
    pthread_mutex_unlock(&lock);
    if (h->status != -1 && WIFSIGNALED(h->status))
        snprintf(how, sizeof how, " by signal %d, %s", WTERMSIG(h->status),
                 strsignal(WTERMSIG(h->status)));
    else if (h->status != -1)
        snprintf(how, sizeof how, " with status %d", WEXITSTATUS(h->status));
    snprintf(why, room, "the helper process that trained was ended%s: run the statement again",
             how);
}

bool helper_begin(const char *python, const char *library, char *why, size_t room) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, hold_in_forks);
    pthread_mutex_lock(&lock);
    free(executable);
    free(extension);
    executable = strdup(python);
    extension = realpath(library, NULL); /* the client may change its directory */
    bool known = executable && extension;
    pthread_mutex_unlock(&lock);
    helper *h = known ? helper_take(why, room) : NULL;
    if (!h)
        return false;
    helper_give(h);
    own_cancels_begin();
    tusk_set_interrupts(own_cancel_count, own_watch_sigint, own_cancel);
    tusk_set_trainer(helper_train);
    return true;
}
