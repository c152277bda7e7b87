package load

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/meshtrial/meshtrial/study/protocol"
)

func init() { dialects[protocol.GRPC] = dialect{caller: newGRPCCaller} }

// newGRPCCaller returns a caller of unary calls: HTTP/2 requests with one message each
// (github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md).
func newGRPCCaller(spec *Spec, t target, d *dialer) caller {
	c := newHTTP2Caller(spec, t, d).(*http2Caller)
	c.judge = judgeGRPC
	c.request.Method = http.MethodPost
	c.setPayload(appendMessage(nil, spec.payload()))
	header := c.request.Header
	header.Set("Content-Type", "application/grpc")
	header.Set("Te", "trailers")
	if limit := seconds(spec.TimeoutS); limit > 0 { // as gRPC's libraries send a call's deadline
		header.Set("Grpc-Timeout", strconv.FormatInt(int64((limit+time.Millisecond-1)/time.Millisecond), 10)+"m")
	}
	return c
}

// grpcPrefix is the size of what precedes a message: whether it is compressed, and its length.
const grpcPrefix = 5

func appendMessage(b, message []byte) []byte {
	return append(binary.BigEndian.AppendUint32(append(b, 0), uint32(len(message))), message...)
}

// judgeGRPC completes the outcome of a call that was answered. Its status is in the trailers, or in
// the headers if there is no message.
func judgeGRPC(out *outcome, resp *http.Response) {
	whole := out.bytesRead >= grpcPrefix
	out.bytesSent, out.bytesRead = out.bytesSent-grpcPrefix, max(0, out.bytesRead-grpcPrefix)
	from := resp.Trailer
	if from.Get("Grpc-Status") == "" {
		from = resp.Header
	}
	code, err := strconv.ParseUint(from.Get("Grpc-Status"), 10, 16)
	switch {
	case resp.StatusCode != http.StatusOK && err != nil:
		out.status = resp.StatusCode
		out.fail(failStatus, fmt.Errorf("HTTP status %d instead of gRPC", resp.StatusCode))
	case err != nil:
		out.fail(failProtocol, errors.New("grpc: an answer without a status"))
	case code == 0 && !whole:
		out.fail(failProtocol, errors.New("grpc: an answer without a message"))
	case code != 0 && expired(resp.Request.Context()): // the server enforced the deadline that it was sent
		out.fail(failTimeout, context.DeadlineExceeded)
	case code != 0:
		out.status = int(code)
		why := codes.Code(code).String()
		if message, err := url.PathUnescape(from.Get("Grpc-Message")); err == nil && message != "" {
			why += ": " + message
		}
		out.fail(failStatus, errors.New(why))
	}
}
