package load

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/meshtrial/meshtrial/drive/load/http1"
	"github.com/meshtrial/meshtrial/study/protocol"
)

func init() {
	dialects[protocol.HTTP1] = dialect{wire: newHTTPWire}
	dialects[protocol.TCP] = dialect{wire: newEchoWire}
}

// wire is a protocol with one request at a time on a connection: the bytes to send,
// and when the response is complete.
type wire struct {
	template *http1.Template // nil for TCP echo
	fixed    []byte          // the request if all are identical
	own      own             // headers that differ by request
	noBody   bool            // requests are HEAD
	expected *statuses
}

// newEchoWire returns the wire of a TCP echo target.
func newEchoWire(spec *Spec, _ target) *wire {
	return &wire{fixed: spec.payload()}
}

// newHTTPWire returns the wire of an HTTP/1.1 target.
func newHTTPWire(spec *Spec, t target) *wire {
	headers := make([]http1.Header, len(spec.Headers))
	for i, h := range spec.Headers {
		headers[i] = http1.Header(h)
	}
	method := spec.method()
	template := http1.NewTemplate(http1.Request{Method: method, Path: t.path, Host: t.hostPort, Headers: headers, Payload: spec.payload(), Close: !spec.KeepAlive})
	return &wire{template: template, fixed: template.Append(nil), own: newOwn(spec), noBody: method == "HEAD", expected: spec.expectedStatuses()}
}

// request returns the bytes of request number n, built in scratch if it has its own
// headers.
func (w *wire) request(scratch *[]byte, n int64) []byte {
	if !w.own.any() {
		return w.fixed
	}
	b := w.own.lines(w.template.AppendHead((*scratch)[:0]), n)
	*scratch = w.template.AppendRest(b)
	return *scratch
}

// method returns the HTTP method of the requests.
func (s *Spec) method() string {
	switch {
	case s.Method != "":
		return s.Method
	case len(s.Body)+s.PayloadBytes > 0:
		return "POST"
	}
	return "GET"
}

// payload returns the body of all requests: the given one, or incompressible letters and
// digits.
func (s *Spec) payload() []byte {
	if len(s.Body) > 0 {
		return s.Body
	}
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	rng := rand.New(rand.NewPCG(1, 2))
	b := make([]byte, s.PayloadBytes)
	for i := range b {
		b[i] = alphabet[rng.Uint32()%uint32(len(alphabet))]
	}
	return b
}

// answer is the state of a response.
type answer struct {
	http     http1.Parser
	expected *statuses
	// expect is the bytes still to be echoed (TCP echo).
	expect []byte
	echo   bool
}

func (w *wire) newAnswer(cache *http1.Cache) answer {
	return answer{http: http1.NewParser(cache, w.noBody), expected: w.expected, echo: w.template == nil}
}

var errEcho = errors.New("tcp: what came back is not what was sent")

// begin prepares the answer for the response to req.
func (a *answer) begin(req []byte) {
	if a.echo {
		a.expect = req
		return
	}
	a.http.Reset()
}

// feed parses bytes of the response; see [http1.Parser.Feed].
func (a *answer) feed(b []byte) (n int, done bool, err error) {
	if !a.echo {
		return a.http.Feed(b)
	}
	n = min(len(b), len(a.expect))
	if !bytes.Equal(b[:n], a.expect[:n]) {
		return n, false, errEcho
	}
	a.expect = a.expect[n:]
	return n, len(a.expect) == 0, nil
}

// eof reports whether the end of the connection completes the response.
func (a *answer) eof() bool { return !a.echo && a.http.EOF() }

// ok reports whether a complete response is a success.
func (a *answer) ok() bool {
	return a.echo || a.expected.ok(a.http.Status())
}

// status returns the status of a complete response; 0 if the protocol has none.
func (a *answer) status() int {
	if a.echo {
		return 0
	}
	return a.http.Status()
}

// closes reports whether the connection ends with this response.
func (a *answer) closes() bool { return !a.echo && a.http.Close() }

// explain adds the offending line to an error of feed, which took n bytes of b.
func (a *answer) explain(err error, b []byte, n int) error {
	if a.echo {
		return err
	}
	return fmt.Errorf("%w: %q", err, cut(a.http.Fault(b, n)))
}

// cut limits an excerpt of what a peer sent.
func cut(b []byte) []byte { return b[:min(len(b), reasonBytes)] }
