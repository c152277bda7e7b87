package worker

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/meshtrial/meshtrial/drive/worker/control"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/jsonhttp"
)

// maxConfigBytes limits a configuration: a million samples and some.
const maxConfigBytes = 32 << 20

// routes are the endpoints of the control server, which control.OpenAPI describes.
func (w *Worker) routes() map[string]http.HandlerFunc {
	return map[string]http.HandlerFunc{
		"GET /v1/counters":  func(rw http.ResponseWriter, _ *http.Request) { jsonhttp.Answer(rw, w.Counters()) },
		"GET /v1/config":    func(rw http.ResponseWriter, _ *http.Request) { jsonhttp.Answer(rw, w.active.Load().config) },
		"POST /v1/config":   w.postConfig,
		"PATCH /v1/config":  w.patchConfig,
		"GET /v1/requests":  w.getRequests,
		"POST /v1/changes":  w.postChange,
		"GET /openapi.json": func(rw http.ResponseWriter, _ *http.Request) { jsonhttp.Answer(rw, control.OpenAPI()) },
		"POST /v1/changes/{id}/commit": func(rw http.ResponseWriter, r *http.Request) {
			var in control.Commit
			if !jsonhttp.Read(rw, r, &in) {
				return
			}
			done, err := w.commit(r.Context(), r.PathValue("id"), time.Unix(0, in.AtNS))
			answerChange(rw, done, err)
		},
		"DELETE /v1/changes/{id}": func(rw http.ResponseWriter, r *http.Request) {
			answerChange(rw, struct{}{}, w.discard(r.PathValue("id")))
		},
	}
}

func (w *Worker) controlServer(l net.Listener) (server, error) {
	mux := w.health(http.NewServeMux())
	for pattern, handler := range w.routes() {
		mux.HandleFunc(pattern, handler)
	}
	jsonhttp.HandleClock(mux)
	s, err := jsonhttp.Server{Name: "worker control", Handler: mux, MaxRequest: maxConfigBytes, Token: w.options.Token, Log: w.options.Log}.HTTP(l)
	if err != nil {
		return server{}, err
	}
	s.WriteTimeout = maxAhead + time.Minute
	return httpServer(s, func() error { return s.Serve(l) }), nil
}

// answerChange answers with out, or with the error of a change.
func answerChange(rw http.ResponseWriter, out any, err error) {
	switch {
	case err == nil:
		jsonhttp.Answer(rw, out)
	case errors.Is(err, errConflict):
		err := errors.New("the configuration in force has another version")
		jsonhttp.Refuse(rw, http.StatusConflict, errs.WithHint(err, "read /v1/config again and repeat the change on it"))
	case errors.Is(err, errStaged):
		jsonhttp.Refuse(rw, http.StatusConflict, errs.WithHint(err, "commit or delete it, or wait %v", stagedTime))
	case errors.Is(err, errUnknown):
		jsonhttp.Refuse(rw, http.StatusNotFound, errs.WithHint(err, "a change waits %v for its commit; stage it again", stagedTime))
	default:
		jsonhttp.Refuse(rw, http.StatusBadRequest, err)
	}
}

func (w *Worker) postConfig(rw http.ResponseWriter, r *http.Request) {
	data, ok := jsonhttp.ReadBody(rw, r)
	if !ok {
		return
	}
	config, err := control.ParseConfig(data)
	w.answerConfig(rw, config, err)
}

// patchConfig applies a merge patch (RFC 7396) to the configuration in force. It must
// name the version.
func (w *Worker) patchConfig(rw http.ResponseWriter, r *http.Request) {
	data, ok := jsonhttp.ReadBody(rw, r)
	if !ok {
		return
	}
	config, err := merged(w.active.Load().config, data)
	w.answerConfig(rw, config, err)
}

// answerConfig configures the worker, unless the request was invalid, and answers.
func (w *Worker) answerConfig(rw http.ResponseWriter, config control.Config, err error) {
	if err == nil {
		config, err = w.configure(config)
	}
	if err == nil {
		w.options.Log.Info("configuration changed", "version", config.Version)
	}
	answerChange(rw, config, err)
}

// merged applies a merge patch to a configuration.
func merged(config control.Config, patch []byte) (control.Config, error) {
	var change map[string]any
	if err := json.Unmarshal(patch, &change); err != nil {
		return config, errs.Usage("worker configuration: %w", err)
	}
	if _, ok := change["version"]; !ok {
		return config, errs.WithHint(errs.Usage("the patch names no version"), "give the version that it is for, as GET /v1/config says it")
	}
	text, err := json.Marshal(config)
	if err != nil {
		return config, err
	}
	var target map[string]any
	if err := json.Unmarshal(text, &target); err != nil {
		return config, err
	}
	mergeInto(target, change)
	if text, err = json.Marshal(target); err != nil {
		return config, err
	}
	return control.ParseConfig(text)
}

func mergeInto(target, patch map[string]any) {
	for key, value := range patch {
		inner, isMap := value.(map[string]any)
		old, wasMap := target[key].(map[string]any)
		switch {
		case value == nil:
			delete(target, key)
		case isMap && wasMap:
			mergeInto(old, inner)
		default:
			target[key] = value
		}
	}
}

func (w *Worker) postChange(rw http.ResponseWriter, r *http.Request) {
	var change control.Change
	if !jsonhttp.Read(rw, r, &change) {
		return
	}
	if schema := change.Config.Schema; schema != 0 && schema != control.Schema {
		jsonhttp.Refuse(rw, http.StatusBadRequest, fmt.Errorf("schema %d, this worker speaks %d", schema, control.Schema))
		return
	}
	answerChange(rw, struct{}{}, w.stage(change))
}

func (w *Worker) getRequests(rw http.ResponseWriter, r *http.Request) {
	if from, ok := jsonhttp.Index(rw, r, "from"); ok {
		page := w.log.page(int64(from))
		page.StartedNS = w.counters.started.UnixNano()
		jsonhttp.Answer(rw, page)
	}
}
