package worker

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/textproto"
	"strconv"
	"time"

	"github.com/meshtrial/meshtrial/drive/worker/control"
	"github.com/meshtrial/meshtrial/study/protocol"
)

func init() {
	servings[protocol.HTTP1] = serving{(*Worker).http1Server, (*Worker).httpsServer, strconv.Itoa, dialHTTP((*http.Protocols).SetHTTP1)}
	servings[protocol.HTTP2] = serving{(*Worker).http2Server, (*Worker).httpsServer, strconv.Itoa, dialHTTP((*http.Protocols).SetUnencryptedHTTP2)}
}

// newHTTPServer returns a server that counts requests of HTTP/1.1 and of HTTP/2 as
// those of protocols one and two.
func (w *Worker) newHTTPServer(one, two string, protocols func(*http.Protocols)) *http.Server {
	counted := [2]*protocolCounters{w.counters.protocol(one), w.counters.protocol(two)}
	s := &http.Server{
		Handler: http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			version := 0
			if r.ProtoMajor == 2 {
				version = 1
			}
			w.serveHTTP(rw, r, counted[version])
		}),
		ReadHeaderTimeout: min(10*time.Second, w.options.ReadTimeout),
		ReadTimeout:       w.options.ReadTimeout,
		// Writing may begin only after the longest service time.
		WriteTimeout:   w.options.ReadTimeout + microseconds(control.MaxServiceUS),
		IdleTimeout:    w.options.IdleTimeout,
		MaxHeaderBytes: w.options.MaxHeaderBytes,
		ErrorLog:       slog.NewLogLogger(w.options.Log.Handler(), slog.LevelDebug),
		Protocols:      new(http.Protocols),
		HTTP2:          &http.HTTP2Config{MaxConcurrentStreams: 1000},
	}
	protocols(s.Protocols)
	return s
}

func (w *Worker) http1Server(l net.Listener) (server, error) {
	s := w.newHTTPServer(protocol.HTTP1, protocol.HTTP1, func(p *http.Protocols) { p.SetHTTP1(true) })
	return httpServer(s, func() error { return s.Serve(l) }), nil
}

func (w *Worker) http2Server(l net.Listener) (server, error) {
	s := w.newHTTPServer(protocol.HTTP1, protocol.HTTP2, func(p *http.Protocols) {
		p.SetHTTP1(true) // counted separately, to expose mislabelled trials
		p.SetUnencryptedHTTP2(true)
	})
	return httpServer(s, func() error { return s.Serve(l) }), nil
}

func (w *Worker) httpsServer(l net.Listener) (server, error) {
	config, err := w.tlsConfig(protocol.HTTPS)
	if err != nil {
		return server{}, err
	}
	s := w.newHTTPServer(protocol.HTTPS, protocol.HTTPS, func(p *http.Protocols) {
		p.SetHTTP1(true)
		p.SetHTTP2(true)
	})
	s.TLSConfig = config
	return httpServer(s, func() error { return s.ServeTLS(l, "", "") }), nil
}

// canonical holds the canonical form of the header names that behaviours use.
var canonical = func() map[string]string {
	names := map[string]string{}
	for _, name := range append([]string{"x-forwarded-client-cert", luaHeader, wasmHeader, "x-envoy-attempt-count", "x-envoy-decorator-operation", "x-envoy-expected-rq-timeout-ms"}, passedOn...) {
		names[name] = textproto.CanonicalMIMEHeaderKey(name)
	}
	return names
}()

// headerOf returns the [Exchange.Header] of a request.
func headerOf(r *http.Request) func(string) string {
	return func(name string) string {
		key, ok := canonical[name]
		if !ok {
			key = textproto.CanonicalMIMEHeaderKey(name)
		}
		if values := r.Header[key]; len(values) > 0 {
			return values[0]
		}
		return ""
	}
}

func (w *Worker) serveHTTP(rw http.ResponseWriter, r *http.Request, counted *protocolCounters) {
	current := w.active.Load()
	x := Exchange{Protocol: counted.name, counted: counted, Header: headerOf(r)}
	if r.Body != nil && r.Body != http.NoBody {
		held := heldBody{budget: &w.bodies}
		defer held.release()
		if status := w.readBody(rw, r, &x, &held, current.needBody); status != 0 {
			counted.bytesIn.Add(x.BodyBytes)
			counted.answered(status)
			if status != statusGone {
				http.Error(rw, http.StatusText(status), status)
			}
			return
		}
	}
	x.Start = time.Now()
	if err := current.serve(r.Context(), &x); err != nil {
		if errors.Is(err, errReset) && reset(rw) {
			return
		}
		panic(http.ErrAbortHandler) // net/http ends the exchange without an answer
	}
	header := rw.Header()
	header["Content-Type"] = contentType
	if x.Status == http.StatusOK && !current.needBody {
		header["Content-Length"] = current.length
	}
	if x.Status != http.StatusOK {
		rw.WriteHeader(x.Status)
	}
	// A failed write means that the client left; the request was served.
	if x.slow > 0 {
		controller := http.NewResponseController(rw)
		_ = w.trickle(r.Context(), x.Reply, x.slow, func(data []byte) error {
			if _, err := rw.Write(data); err != nil {
				return err
			}
			return controller.Flush()
		})
		return
	}
	_, _ = rw.Write(x.Reply)
}

var contentType = []string{"text/plain; charset=utf-8"}

// readBody reads r's body, into held if keep is set, and counts it. It returns a status if the
// request fails.
func (w *Worker) readBody(rw http.ResponseWriter, r *http.Request, x *Exchange, held *heldBody, keep bool) (status int) {
	if r.ContentLength > w.options.MaxBodyBytes {
		return http.StatusRequestEntityTooLarge
	}
	body := http.MaxBytesReader(rw, r.Body, w.options.MaxBodyBytes)
	var err error
	if keep {
		err = held.read(body, max(r.ContentLength, 0))
		x.Body, x.BodyBytes = held.bytes, int64(len(held.bytes))
	} else {
		x.BodyBytes, err = io.Copy(io.Discard, body)
	}
	return bodyStatus(err)
}

func bodyStatus(err error) int {
	var tooLarge *http.MaxBytesError
	var timeout net.Error
	switch {
	case err == nil:
		return 0
	case errors.Is(err, errBodies):
		return http.StatusServiceUnavailable
	case errors.As(err, &tooLarge):
		return http.StatusRequestEntityTooLarge
	case errors.Is(err, context.Canceled), errors.Is(err, io.ErrUnexpectedEOF):
		return statusGone
	case errors.As(err, &timeout) && timeout.Timeout():
		return http.StatusRequestTimeout
	}
	return http.StatusBadRequest
}

func (w *Worker) healthServer(l net.Listener) (server, error) {
	s := &http.Server{
		Handler:           w.health(http.NewServeMux()),
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       5 * time.Second,
		WriteTimeout:      5 * time.Second,
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    8 << 10,
		ErrorLog:          slog.NewLogLogger(w.options.Log.Handler(), slog.LevelDebug),
	}
	return httpServer(s, func() error { return s.Serve(l) }), nil
}

func (w *Worker) health(mux *http.ServeMux) *http.ServeMux {
	answer := func(rw http.ResponseWriter, _ *http.Request) {
		if w.draining.Load() {
			http.Error(rw, "draining", http.StatusServiceUnavailable)
			return
		}
		_, _ = io.WriteString(rw, "ok\n")
	}
	mux.HandleFunc("GET /healthz", answer)
	mux.HandleFunc("GET /readyz", func(rw http.ResponseWriter, r *http.Request) {
		if w.leaving.Load() || w.active.Load().config.NotReady {
			http.Error(rw, "not ready", http.StatusServiceUnavailable)
			return
		}
		answer(rw, r)
	})
	return mux
}
