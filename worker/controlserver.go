package worker

import (
	"errors"
	"net"
	"net/http"
	"time"

	"github.com/meshmark/meshmark/errs"
	"github.com/meshmark/meshmark/internal/jsonhttp"
	"github.com/meshmark/meshmark/worker/control"
)

// maxConfigBytes bounds a configuration: a million samples and some.
const maxConfigBytes = 32 << 20

func (w *Worker) controlServer(l net.Listener) (server, error) {
	mux := w.health(http.NewServeMux())
	mux.HandleFunc("GET /v1/counters", func(rw http.ResponseWriter, r *http.Request) { jsonhttp.Answer(rw, w.Counters()) })
	mux.HandleFunc("GET /v1/config", func(rw http.ResponseWriter, r *http.Request) { jsonhttp.Answer(rw, w.active.Load().config) })
	mux.HandleFunc("POST /v1/config", w.postConfig)
	jsonhttp.HandleClock(mux)
	s, err := jsonhttp.Server{Name: "worker control", Handler: mux, MaxRequest: maxConfigBytes, Log: w.options.Log}.HTTP(l)
	if err != nil {
		return server{}, err
	}
	s.WriteTimeout = time.Minute
	return httpServer(s, func() error { return s.Serve(l) }), nil
}

func (w *Worker) postConfig(rw http.ResponseWriter, r *http.Request) {
	data, ok := jsonhttp.ReadBody(rw, r)
	if !ok {
		return
	}
	config, err := control.ParseConfig(data)
	if err == nil {
		config, err = w.configure(config)
	}
	switch {
	case errors.Is(err, errConflict):
		err := errors.New("the configuration in force has another version")
		jsonhttp.Refuse(rw, http.StatusConflict, errs.WithHint(err, "read /v1/config again and repeat the change on it"))
	case err != nil:
		jsonhttp.Refuse(rw, http.StatusBadRequest, err)
	default:
		w.options.Log.Info("configuration changed", "version", config.Version)
		jsonhttp.Answer(rw, config)
	}
}
