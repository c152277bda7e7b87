package lab

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	//lint:ignore SA1019 client-go's dialer makes connections of this one
	"k8s.io/apimachinery/pkg/util/httpstream"
)

// halfStream is a port-forward stream of which only reading matters.
type halfStream struct {
	*io.PipeReader
}

func (halfStream) Write(b []byte) (int, error) { return len(b), nil }
func (halfStream) Close() error                { return nil }
func (s halfStream) Reset() error              { return s.PipeReader.Close() }
func (halfStream) Headers() http.Header        { return nil }
func (halfStream) Identifier() uint32          { return 0 }

type noConnection struct{ httpstream.Connection }

func (noConnection) RemoveStreams(...httpstream.Stream) {}

// The reason why a pod's port refused arrives on a different stream than the
// one that ends; on a busy machine it may be read considerably later.
func TestRefusalIsToldHoweverLate(t *testing.T) {
	const why = "connect: connection refused"
	for name, test := range map[string]struct {
		says string
		late time.Duration
		want string        // "" for a plain end
		most time.Duration // until then
	}{
		"at once":        {why, 0, why, 0},
		"late":           {why, time.Second, why, time.Second},
		"nothing to say": {"", 0, "", 0},
		"never ends":     {"", time.Hour, "", refusalTime},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				data, dataEnd := io.Pipe()
				told, teller := io.Pipe()
				conn := newStreamConn(noConnection{}, halfStream{PipeReader: data}, halfStream{PipeReader: told}, podAddr{"ns/pod", 9})
				dataEnd.Close()
				go func() {
					time.Sleep(test.late)
					io.WriteString(teller, test.says)
					teller.Close()
				}()
				began := time.Now()
				_, err := conn.Read(make([]byte, 1))
				if test.want == "" && !errors.Is(err, io.EOF) || !strings.Contains(err.Error(), test.want) || time.Since(began) > test.most {
					t.Errorf("%v after %v", err, time.Since(began))
				}
				conn.Close()
				if test.late > test.most { // a reason that never arrives ends with the test
					time.Sleep(test.late)
				}
			})
		})
	}
}
