package control

import (
	"errors"
	"net/http"

	"github.com/meshtrial/meshtrial/drive/xds"
	"github.com/meshtrial/meshtrial/internal/jsonhttp"
)

// OutageRequest is the body of POST /v1/outage.
type OutageRequest struct {
	Drop bool `json:"drop"` // end all connections
}

func beginOutage(w http.ResponseWriter, r *http.Request, f *xds.Fleet) {
	var in OutageRequest
	if jsonhttp.Read(w, r, &in) {
		jsonhttp.Answer(w, f.BeginOutage(in.Drop))
	}
}

func outage(w http.ResponseWriter, _ *http.Request, f *xds.Fleet) {
	o, ok := f.Outage()
	if !ok {
		jsonhttp.Refuse(w, http.StatusNotFound, errors.New("no outage has begun"))
		return
	}
	jsonhttp.Answer(w, o)
}
