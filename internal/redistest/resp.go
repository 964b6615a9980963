package redistest

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// readFrame returns the bytes of one RESP2 or RESP3 value, unchanged.
//
// Source: https://redis.io/docs/latest/develop/reference/protocol-spec/
func readFrame(r *bufio.Reader) ([]byte, error) { return appendFrame(nil, r) }

func appendFrame(frame []byte, r *bufio.Reader) ([]byte, error) {
	line, err := r.ReadBytes('\n')
	if err != nil {
		return nil, err
	}
	frame = append(frame, line...)
	children := 1
	switch line[0] {
	case '+', '-', ':', '_', '#', ',', '(', '\r', '\n': // an empty line keeps a replica's link alive
		return frame, nil
	case '$', '!', '=':
		n, err := length(line)
		if err != nil || n < 0 {
			return frame, err
		}
		return appendN(frame, r, n+2)
	case '*', '~', '>':
	case '%':
		children = 2
	case '|': // attributes, then the value they belong to
		n, err := length(line)
		if err != nil {
			return nil, err
		}
		return appendFrames(frame, r, 2*n+1)
	default:
		return nil, fmt.Errorf("redistest: not a RESP value: %q", line)
	}
	n, err := length(line)
	if err != nil {
		return nil, err
	}
	return appendFrames(frame, r, n*children)
}

func appendFrames(frame []byte, r *bufio.Reader, n int) ([]byte, error) {
	var err error
	for range n {
		if frame, err = appendFrame(frame, r); err != nil {
			return nil, err
		}
	}
	return frame, nil
}

func appendN(frame []byte, r *bufio.Reader, n int) ([]byte, error) {
	at := len(frame)
	frame = append(frame, make([]byte, n)...)
	_, err := io.ReadFull(r, frame[at:])
	return frame, err
}

func length(line []byte) (int, error) { return strconv.Atoi(string(bytes.TrimSpace(line[1:]))) }

// readCommand returns the bytes of one request, and its arguments.
func readCommand(r *bufio.Reader) (raw []byte, args []string, err error) {
	first, err := r.Peek(1)
	if err != nil {
		return nil, nil, err
	}
	if first[0] != '*' {
		raw, err = r.ReadBytes('\n')
		return raw, strings.Fields(string(raw)), err
	}
	raw, err = readFrame(r)
	return raw, elements(raw), err
}

// elements returns the bulk strings of a flat array.
func elements(frame []byte) (list []string) {
	_, rest, _ := bytes.Cut(frame, []byte("\r\n"))
	for len(rest) > 0 && rest[0] == '$' {
		line, body, _ := bytes.Cut(rest, []byte("\r\n"))
		n, err := length(line)
		if err != nil || n < 0 || len(body) < n+2 {
			return list
		}
		list = append(list, string(body[:n]))
		rest = body[n+2:]
	}
	return list
}

// request encodes a command as RESP.
func request(args ...string) []byte {
	b := fmt.Appendf(nil, "*%d\r\n", len(args))
	for _, a := range args {
		b = fmt.Appendf(b, "$%d\r\n%s\r\n", len(a), a)
	}
	return b
}
