package worker

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/meshtrial/meshtrial/drive/worker/control"
)

// statusReset is nginx's status for requests whose connection the server closed without
// an answer.
const statusReset = 444

// errReset ends an exchange by a reset of its connection.
var errReset = errors.New("the connection is to be reset")

// failures are the ways to fail a request, in the order of their counters.
var failures = [...]string{control.FailStatus, control.FailReset, control.FailHang, control.FailSlowBody, control.FailCrash}

// fail fails the configured shares of exchanges. It draws failures before anything else;
// they take effect before or after the service time.
func (w *Worker) fail(planned []control.Failure, late bool) Link {
	return func(next Behaviour) Behaviour {
		if len(planned) == 0 {
			return next
		}
		return func(ctx context.Context, x *Exchange) error {
			if !late {
				x.fate = draw(planned)
			}
			f := x.fate
			if f == nil || f.Early == late {
				return next(ctx, x)
			}
			x.Failure = f.How
			w.counters.planted[slices.Index(failures[:], f.How)].Add(1)
			switch f.How {
			case control.FailStatus:
				x.Status, x.Reply = f.Status, plannedFailure
				return nil
			case control.FailReset:
				return errReset
			case control.FailHang:
				<-ctx.Done()
				return ctx.Err()
			case control.FailCrash:
				_ = w.log.flush()
				w.options.Crash()
				return errReset // a crash that does not end the process ends the exchange
			}
			x.slow = cmp.Or(f.BytesPerSecond, 100) // slow-body
			return next(ctx, x)
		}
	}
}

var plannedFailure = []byte("a planned failure\n")

// draw chooses at most one failure for a request.
func draw(failures []control.Failure) *control.Failure {
	u := rand.Float64()
	for i := range failures {
		if u -= failures[i].Share; u < 0 {
			return &failures[i]
		}
	}
	return nil
}

// reset closes the connection of an HTTP/1.1 exchange with RST. It returns false if
// there is no such connection: with HTTP/2 the caller resets the stream.
func reset(rw http.ResponseWriter) bool {
	conn, _, err := http.NewResponseController(rw).Hijack()
	if err != nil {
		return false
	}
	resetConn(conn)
	return true
}

// resetConn closes a connection with RST instead of FIN.
func resetConn(conn net.Conn) {
	inner := conn
	for {
		wrapper, ok := inner.(interface{ NetConn() net.Conn })
		if !ok {
			break
		}
		inner = wrapper.NetConn()
	}
	if tcp, ok := inner.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // if it fails, the connection is closed anyway
	}
	conn.Close()
}

// slowStep is the interval between the writes of a slow body.
const slowStep = 100 * time.Millisecond

// trickle writes data at a number of bytes per second until it is complete, a write
// fails or ctx ends.
func (w *Worker) trickle(ctx context.Context, data []byte, bytesPerSecond int64, write func([]byte) error) error {
	step := max(1, int(bytesPerSecond*int64(slowStep)/int64(time.Second)))
	pause := max(slowStep, time.Duration(int64(step)*int64(time.Second)/bytesPerSecond))
	for len(data) > 0 {
		n := min(step, len(data))
		if err := write(data[:n]); err != nil {
			return err
		}
		data = data[n:]
		if err := w.pacer.timer.Until(ctx, time.Now().Add(pause)); err != nil {
			return err
		}
	}
	return nil
}
