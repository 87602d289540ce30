#include "channel.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

typedef union control {
    char room[CMSG_SPACE(2 * sizeof(int))];
    struct cmsghdr align;
} control;

bool note_send(int channel, const note *sent, const int files[2]) {
    struct iovec bytes = {(void *)(uintptr_t)sent, sizeof *sent};
    struct msghdr message = {.msg_iov = &bytes, .msg_iovlen = 1};
    control c = {{0}};
    if (files[0] >= 0) {
        message.msg_control = c.room;
        message.msg_controllen = sizeof c.room;
        struct cmsghdr *head = CMSG_FIRSTHDR(&message);
        head->cmsg_level = SOL_SOCKET;
        head->cmsg_type = SCM_RIGHTS;
        head->cmsg_len = CMSG_LEN(2 * sizeof(int));
        memcpy(CMSG_DATA(head), files, 2 * sizeof(int));
    }
    ssize_t n;
    do
        n = sendmsg(channel, &message, MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    return n == (ssize_t)sizeof *sent;
}

bool note_receive(int channel, note *got, int files[2]) {
    struct iovec bytes = {got, sizeof *got};
    control c;
    struct msghdr message = {.msg_iov = &bytes,
                             .msg_iovlen = 1,
                             .msg_control = c.room,
                             .msg_controllen = sizeof c.room};
    files[0] = files[1] = -1;
    ssize_t n;
    do
        n = recvmsg(channel, &message, MSG_CMSG_CLOEXEC);
    while (n < 0 && errno == EINTR);
    if (n != (ssize_t)sizeof *got)
        return false;
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    if (head && head->cmsg_type == SCM_RIGHTS && head->cmsg_len == CMSG_LEN(2 * sizeof(int)))
        memcpy(files, CMSG_DATA(head), 2 * sizeof(int));
    return true;
}

bool stream_send(int stream, const void *bytes, size_t size) {
    const char *at = bytes;
    while (size > 0) {
        ssize_t n = send(stream, at, size, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        at += n;
        size -= (size_t)n;
    }
    return true;
}
