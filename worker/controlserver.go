package worker

import (
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/meshmark/meshmark/errs"
	"github.com/meshmark/meshmark/worker/control"
)

// maxConfigBytes bounds a configuration: a million samples and some.
const maxConfigBytes = 32 << 20

func (w *Worker) controlServer(l net.Listener) (server, error) {
	mux := w.health(http.NewServeMux())
	mux.HandleFunc("GET /v1/counters", func(rw http.ResponseWriter, r *http.Request) {
		answer(rw, http.StatusOK, w.Counters())
	})
	mux.HandleFunc("GET /v1/clock", func(rw http.ResponseWriter, r *http.Request) {
		answer(rw, http.StatusOK, control.Clock{UnixNS: time.Now().UnixNano()})
	})
	mux.HandleFunc("GET /v1/config", func(rw http.ResponseWriter, r *http.Request) {
		answer(rw, http.StatusOK, w.active.Load().config)
	})
	mux.HandleFunc("POST /v1/config", w.postConfig)
	s := &http.Server{
		// A page of another site, open in a browser on this machine, must
		// not change the configuration.
		Handler:           http.NewCrossOriginProtection().Handler(mux),
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       time.Minute,
		WriteTimeout:      time.Minute,
		IdleTimeout:       10 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          slog.NewLogLogger(w.options.Log.Handler(), slog.LevelDebug),
	}
	return httpServer(s, func() error { return s.Serve(l) }), nil
}

func (w *Worker) postConfig(rw http.ResponseWriter, r *http.Request) {
	data, err := io.ReadAll(http.MaxBytesReader(rw, r.Body, maxConfigBytes))
	if err != nil {
		var tooLarge *http.MaxBytesError
		if errors.As(err, &tooLarge) {
			answer(rw, http.StatusRequestEntityTooLarge, control.Problem{Error: "the configuration is larger than 32 MiB"})
			return
		}
		answer(rw, http.StatusBadRequest, control.Problem{Error: err.Error()})
		return
	}
	config, err := control.ParseConfig(data)
	if err == nil {
		config, err = w.configure(config)
	}
	switch {
	case errors.Is(err, errConflict):
		answer(rw, http.StatusConflict, control.Problem{
			Error: "the configuration in force has another version",
			Hint:  "read /v1/config again and repeat the change on it",
		})
	case err != nil:
		answer(rw, http.StatusBadRequest, control.Problem{Error: err.Error(), Hint: errs.Hint(err)})
	default:
		w.options.Log.Info("configuration changed", "version", config.Version)
		answer(rw, http.StatusOK, config)
	}
}

func answer(rw http.ResponseWriter, status int, document any) {
	rw.Header().Set("Content-Type", "application/json")
	rw.WriteHeader(status)
	_ = json.NewEncoder(rw).Encode(document) // the client is gone
}
