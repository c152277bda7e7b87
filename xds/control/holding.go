package control

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/meshmark/meshmark/internal/confile"
	"github.com/meshmark/meshmark/xds"
)

func (s *Server) holdings(w http.ResponseWriter, _ *http.Request, f *xds.Fleet) {
	answer(w, Holdings{Holdings: f.Holdings()})
}

// configuration packs what one proxy holds.
func (s *Server) configuration(w http.ResponseWriter, r *http.Request, f *xds.Fleet) {
	numbers := map[string]int{}
	for _, name := range []string{"proxy", "proxies"} {
		n, err := strconv.Atoi(r.URL.Query().Get(name))
		if err != nil || n < 0 {
			refuse(w, http.StatusBadRequest, fmt.Errorf("%s %.40q: want a number", name, r.URL.Query().Get(name)))
			return
		}
		numbers[name] = n
	}
	var file bytes.Buffer
	z := gzip.NewWriter(&file)
	err := f.WriteConfiguration(z, numbers["proxy"], confile.Header{Proxies: numbers["proxies"]})
	if err = errors.Join(err, z.Close()); err != nil {
		refuse(w, http.StatusBadRequest, err)
		return
	}
	answer(w, Configuration{File: file.Bytes()})
}
