/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "transport/emulator/setup.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Room for one descriptor, aligned as the kernel wants it. */
union control {
    struct cmsghdr align;
    char bytes[CMSG_SPACE(sizeof(int))];
};

static enum c7x_status status_of_errno(void)
{
    return errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOBUFS ? C7X_BUSY : C7X_RESET;
}

enum c7x_status c7x_setup_send(int socket, const struct c7x_setup_message *message, int fd,
                               bool wait)
{
    struct c7x_setup_message copy = *message;
    struct iovec part = {&copy, sizeof copy};
    union control control;
    memset(&control, 0, sizeof control);
    struct msghdr header = {.msg_iov = &part, .msg_iovlen = 1};
    if (fd >= 0) {
        header.msg_control = control.bytes;
        header.msg_controllen = sizeof control.bytes;
        struct cmsghdr *rights = CMSG_FIRSTHDR(&header);
        rights->cmsg_level = SOL_SOCKET;
        rights->cmsg_type = SCM_RIGHTS;
        rights->cmsg_len = CMSG_LEN(sizeof fd);
        memcpy(CMSG_DATA(rights), &fd, sizeof fd);
    }
    ssize_t sent;
    do
        sent = sendmsg(socket, &header, MSG_NOSIGNAL | (wait ? 0 : MSG_DONTWAIT));
    while (sent < 0 && errno == EINTR);
    return sent == (ssize_t)sizeof copy ? C7X_OK : status_of_errno();
}

/* The descriptor that came with a packet, or -1. */
static int take_descriptor(struct msghdr *header)
{
    int fd = -1;
    for (struct cmsghdr *part = CMSG_FIRSTHDR(header); part != NULL;
         part = CMSG_NXTHDR(header, part))
        if (part->cmsg_level == SOL_SOCKET && part->cmsg_type == SCM_RIGHTS &&
            part->cmsg_len == CMSG_LEN(sizeof fd))
            memcpy(&fd, CMSG_DATA(part), sizeof fd);
    return fd;
}

enum c7x_status c7x_setup_receive(int socket, struct c7x_setup_message *out_message, int *out_fd,
                                  bool wait)
{
    struct c7x_setup_message message;
    struct iovec part = {&message, sizeof message};
    union control control;
    struct msghdr header = {.msg_iov = &part,
                            .msg_iovlen = 1,
                            .msg_control = control.bytes,
                            .msg_controllen = sizeof control.bytes};
    ssize_t size;
    do
        size = recvmsg(socket, &header, MSG_CMSG_CLOEXEC | (wait ? 0 : MSG_DONTWAIT));
    while (size < 0 && errno == EINTR);
    if (size == 0)
        return C7X_RESET;
    if (size < 0)
        return status_of_errno();
    int fd = take_descriptor(&header);
    if (size != (ssize_t)sizeof message || (header.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0) {
        if (fd >= 0)
            close(fd);
        return C7X_PROTOCOL;
    }
    *out_message = message;
    *out_fd = fd;
    return C7X_OK;
}

bool c7x_setup_peer_is_us(int socket)
{
    struct ucred peer;
    socklen_t size = sizeof peer;
    return getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.uid == geteuid();
}
