package worker

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/meshtrial/meshtrial/drive/worker/control"
)

// statusReset counts requests whose connection the worker itself closed
// without an answer, as nginx does.
const statusReset = 444

// errReset ends an exchange by a reset of its connection.
var errReset = errors.New("the connection is to be reset")

// planted counts failures that the configuration asked for.
type planted struct {
	status, reset, hang, slowBody, crash atomic.Int64
}

func (p *planted) of(how string) *atomic.Int64 {
	switch how {
	case control.FailStatus:
		return &p.status
	case control.FailReset:
		return &p.reset
	case control.FailHang:
		return &p.hang
	case control.FailSlowBody:
		return &p.slowBody
	}
	return &p.crash
}

// fail fails the shares of exchanges that the configuration names: chosen
// before anything else, carried out before the service time or after it.
func (w *Worker) fail(failures []control.Failure, late bool) Link {
	return func(next Behaviour) Behaviour {
		if len(failures) == 0 {
			return next
		}
		return func(ctx context.Context, x *Exchange) error {
			if !late {
				x.fate = draw(failures)
			}
			f := x.fate
			if f == nil || f.Early == late {
				return next(ctx, x)
			}
			x.Failure = f.How
			w.counters.planted.of(f.How).Add(1)
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
				_ = w.log.flush() // of those that were served
				w.options.Crash()
				return errReset // a crash that does not end the process ends the exchange
			}
			x.slow = f.BytesPerSecond // slow-body
			if x.slow == 0 {
				x.slow = 100
			}
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

// reset closes an HTTP/1.1 exchange's connection with RST. It returns only
// where the connection cannot be had, as with HTTP/2, whose stream is reset
// by the caller.
func reset(rw http.ResponseWriter) bool {
	conn, _, err := http.NewResponseController(rw).Hijack()
	if err != nil {
		return false
	}
	resetConn(conn)
	return true
}

// resetConn closes a connection with RST in place of FIN.
func resetConn(conn net.Conn) {
	inner := conn
	for {
		if under, ok := inner.(interface{ NetConn() net.Conn }); ok {
			inner = under.NetConn()
		} else if counted, ok := inner.(*countedConn); ok {
			inner = counted.Conn
		} else {
			break
		}
	}
	if tcp, ok := inner.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // it is closed in any case
	}
	conn.Close()
}

// slowStep is how often a slow body gets its next bytes.
const slowStep = 100 * time.Millisecond

// trickle writes data at a number of bytes per second until it is out, a write
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
