package worker

import (
	"net"
	"net/http"
	"time"

	"github.com/meshtrial/meshtrial/drive/worker/control"
	"github.com/meshtrial/meshtrial/internal/jsonhttp"
)

// maxConfigBytes limits a configuration: a million samples and some.
const maxConfigBytes = 32 << 20

func (w *Worker) controlServer(l net.Listener) (server, error) {
	mux := w.health(http.NewServeMux())
	jsonhttp.HandleClock(mux)
	jsonhttp.Handle(mux, "GET /v1/counters", func(*http.Request, jsonhttp.None) (control.Counters, error) { return w.Counters(), nil })
	jsonhttp.Handle(mux, "GET /v1/config", func(*http.Request, jsonhttp.None) (control.Config, error) { return w.active.Load().config, nil })
	mux.HandleFunc("POST /v1/config", w.setConfig)
	s, err := jsonhttp.Server{Name: "worker control", Handler: mux, MaxRequest: maxConfigBytes, Token: w.options.Token, Log: w.options.Log}.HTTP(l)
	if err != nil {
		return server{}, err
	}
	s.WriteTimeout = time.Minute
	return httpServer(s, func() error { return s.Serve(l) }), nil
}

// setConfig configures the worker as a request says.
func (w *Worker) setConfig(rw http.ResponseWriter, r *http.Request) {
	data, ok := jsonhttp.ReadBody(rw, r)
	if !ok {
		return
	}
	config, err := control.ParseConfig(data)
	if err == nil {
		config, err = w.configure(config)
	}
	if err != nil {
		jsonhttp.Reject(rw, err)
		return
	}
	w.options.Log.Info("configuration changed", "version", config.Version)
	jsonhttp.Answer(rw, config)
}
