package control

import (
	"bytes"
	"compress/gzip"
	"errors"
	"net/http"

	"github.com/meshtrial/meshtrial/drive/xds"
	"github.com/meshtrial/meshtrial/internal/confile"
	"github.com/meshtrial/meshtrial/internal/jsonhttp"
)

func (s *Server) holdings(w http.ResponseWriter, _ *http.Request, f *xds.Fleet) {
	jsonhttp.Answer(w, Holdings{Bytes: f.Bytes()})
}

// configuration sends what one proxy holds.
func (s *Server) configuration(w http.ResponseWriter, r *http.Request, f *xds.Fleet) {
	proxy, ok := jsonhttp.Index(w, r, "proxy")
	if !ok {
		return
	}
	proxies, ok := jsonhttp.Index(w, r, "proxies")
	if !ok {
		return
	}
	var file bytes.Buffer
	z := gzip.NewWriter(&file)
	err := f.WriteConfiguration(z, proxy, confile.Header{Proxies: proxies})
	if err = errors.Join(err, z.Close()); err != nil {
		jsonhttp.Refuse(w, http.StatusBadRequest, err)
		return
	}
	jsonhttp.Answer(w, Configuration{File: file.Bytes()})
}
