/* SPDX-License-Identifier: Apache-2.0 */
/* raw: sends frames that are written in hex as they are and prints the replies in the same way. */
#define _POSIX_C_SOURCE 200809L
#include "cli.h"

#include <cjson/cJSON.h>
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { WAIT_MS = 1000, HEX_MAX = C7X_RAW_FRAME_MAX * 3 };

struct frame {
    uint8_t bytes[C7X_RAW_FRAME_MAX];
    size_t size;
};

struct frames {
    struct frame *list;
    size_t count;
};

struct exchange {
    struct c7x_raw *raw;
    cJSON *replies;     /* NULL: they are printed as they come */
    size_t outstanding; /* frames without a reply */
};

/* ---- The file ---- */

static bool add_frame(struct frames *frames, const struct frame *frame)
{
    struct frame *longer = realloc(frames->list, (frames->count + 1) * sizeof *longer);
    if (longer == NULL)
        return false;
    longer[frames->count++] = *frame;
    frames->list = longer;
    return true;
}

static int digit_value(char c)
{
    static const char digits[] = "0123456789abcdef";
    const char *found = c != '\0' ? strchr(digits, tolower((unsigned char)c)) : NULL;
    return found != NULL ? (int)(found - digits) : -1;
}

/* Lines and columns count from 1. A frame that is too long keeps its size but not its bytes. */
static int parse_line(const struct cli *cli, const char *text, size_t length, size_t line,
                      struct frame *frame)
{
    size_t digits = 0;
    size_t column = 0;
    for (size_t i = 0; i < length && text[i] != '#'; i++) {
        int value = digit_value(text[i]);
        if (text[i] == ' ' || text[i] == '\t' || text[i] == '\r')
            continue;
        if (value < 0)
            return cli_fail(cli, "usage", "line %zu, column %zu: not a hexadecimal digit", line,
                            i + 1);
        if (digits / 2 < sizeof frame->bytes)
            frame->bytes[digits / 2] = (uint8_t)(frame->bytes[digits / 2] << 4 | value);
        digits++;
        column = i + 1;
    }
    frame->size = digits / 2;
    if (digits % 2 != 0)
        return cli_fail(cli, "usage", "line %zu, column %zu: a byte lacks its second digit", line,
                        column);
    return CLI_DONE;
}

static int take_line(const struct cli *cli, const char *text, size_t length, size_t line,
                     struct frames *frames, size_t *first_too_long)
{
    struct frame frame = {0};
    int code = parse_line(cli, text, length, line, &frame);
    if (code != CLI_DONE || frame.size == 0)
        return code;
    if (frame.size > C7X_RAW_FRAME_MAX) {
        if (*first_too_long == 0)
            *first_too_long = line;
        return CLI_DONE;
    }
    if (!add_frame(frames, &frame))
        return cli_fail(cli, "input", "no memory for the frames");
    return CLI_DONE;
}

/* All of the file is read before anything is sent: half of a conversation is of no use. */
static int parse_file(const struct cli *cli, const char *text, size_t size, struct frames *frames)
{
    size_t too_long = 0;
    size_t line = 1;
    for (size_t at = 0; at < size; line++) {
        const char *end = memchr(text + at, '\n', size - at);
        size_t length = end != NULL ? (size_t)(end - text) - at : size - at;
        int code = take_line(cli, text + at, length, line, frames, &too_long);
        if (code != CLI_DONE)
            return code;
        at += length + 1;
    }
    if (too_long != 0)
        return cli_fail(cli, "input", "line %zu: the frame is longer than %d bytes", too_long,
                        C7X_RAW_FRAME_MAX);
    return CLI_DONE;
}

static int read_frames(const struct cli *cli, struct frames *frames)
{
    const char *path = cli->options.positional[0];
    char *text = NULL;
    size_t size = 0;
    const char *problem =
        strcmp(path, "-") == 0 ? cli_read_stdin(&text, &size) : cli_read_file(path, &text, &size);
    if (problem != NULL)
        return cli_fail(cli, "input", "cannot read %s: %s", path, problem);
    int code = parse_file(cli, text, size, frames);
    free(text);
    return code;
}

/* ---- The conversation ---- */

static void report_reply(struct exchange *exchange, const uint8_t *bytes, size_t size)
{
    static const char digits[] = "0123456789abcdef";
    char text[HEX_MAX + 1];
    for (size_t i = 0; i < size; i++) {
        text[i * 3] = digits[bytes[i] >> 4];
        text[i * 3 + 1] = digits[bytes[i] & 15];
        text[i * 3 + 2] = ' ';
    }
    text[size > 0 ? size * 3 - 1 : 0] = '\0';
    if (exchange->replies != NULL) {
        cJSON_AddItemToArray(exchange->replies, cJSON_CreateString(text));
    } else {
        puts(text);
        fflush(stdout);
    }
}

/*
 * Waits for the reply to the frame just sent; after the last frame for what else is outstanding,
 * within the same second.
 */
static enum c7x_status take_replies(struct exchange *exchange, bool is_last)
{
    int64_t end_ns = cli_now_ns() + WAIT_MS * CLI_NS_PER_MS;
    bool has_reply = false;
    while (!has_reply || (is_last && exchange->outstanding > 0)) {
        uint8_t bytes[C7X_RAW_FRAME_MAX];
        size_t size = 0;
        int64_t left_ms = (end_ns - cli_now_ns()) / CLI_NS_PER_MS;
        enum c7x_status status =
            c7x_raw_receive(exchange->raw, bytes, &size, left_ms > 0 ? left_ms : 0);
        if (status == C7X_TIMEOUT) {
            if (!has_reply)
                fputs("# no reply within 1 s\n", stderr);
            return C7X_OK;
        }
        if (status != C7X_OK)
            return status;
        report_reply(exchange, bytes, size);
        exchange->outstanding--;
        has_reply = true;
    }
    return C7X_OK;
}

static enum c7x_status converse(struct exchange *exchange, const struct frames *frames)
{
    for (size_t i = 0; i < frames->count; i++) {
        enum c7x_status status =
            c7x_raw_send(exchange->raw, frames->list[i].bytes, frames->list[i].size);
        if (status != C7X_OK)
            return status;
        exchange->outstanding++;
        status = take_replies(exchange, i + 1 == frames->count);
        if (status != C7X_OK)
            return status;
    }
    return C7X_OK;
}

/* What was answered before a failure is printed all the same, but not as JSON, which then holds the
 * failure. */
static int exchange_frames(struct cli *cli, const struct frames *frames)
{
    struct exchange exchange = {0};
    struct c7x_client_options options;
    cli_client_options(cli, &options);
    enum c7x_status status = c7x_raw_open(&options, &exchange.raw);
    if (status != C7X_OK)
        return cli_fail_open(cli, status);
    cJSON *object = cli_json_ok();
    cli_json_add_unsigned(object, "sent", frames->count);
    if (cli->options.json)
        exchange.replies = cJSON_AddArrayToObject(object, "replies");
    status = converse(&exchange, frames);
    c7x_raw_close(exchange.raw);
    if (status == C7X_OK && cli->options.json) {
        cli_json_add_unsigned(object, "unanswered", exchange.outstanding);
        cli_json_print(object);
    } else {
        cJSON_Delete(object);
    }
    return status == C7X_OK ? CLI_DONE : cli_fail_status(cli, "raw", status);
}

int cli_raw(struct cli *cli)
{
    struct frames frames = {0};
    int code = read_frames(cli, &frames);
    if (code == CLI_DONE)
        code = exchange_frames(cli, &frames);
    free(frames.list);
    return code;
}
