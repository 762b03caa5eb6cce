package codec_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/internal/codec"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/kinds"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
)

const fuzzedSchema = `{"type":"object","properties":{"spec":{"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"array","items":{"type":"string"}}}}}}`

// fuzzDecode checks that every decoded object can be encoded in every format, and is
// decoded again without a change.
func fuzzDecode(f *testing.F, contentType string) {
	custom := widgets(fuzzedSchema)
	open := widgets("")
	open.Kind, open.Resource = "Gadget", "gadgets"
	c := newCodec(f, custom, open)
	list := append(builtIn(), custom, open)
	for _, document := range []string{
		`{"metadata":{"name":"x"},"data":{"a":"b"}}`, `{"metadata":{"generateName":"x"},"data":{"a":1}}`, `{"metadata":{},"spec":{"a":1.0,"b":["x"],"c":{}}}`,
		`{"kind":"Event","apiVersion":"v1","metadata":{"name":"x"},"eventTime":"2026-01-02T03:04:05.123456Z"}`, `{"metadata":{"name":"x","name":"y"},"spec":{"hard":{"pods":"1"}}}`,
		"metadata: {name: x}\nspec: &a {a: 1}\nother: *a\n", "k8s\x00\x12\x03abc", `{"metadata":{"name":"x"},"spec":{"limits":[{"max":{"cpu":1e3}}]}}`,
	} {
		for i := range list {
			f.Add([]byte(document), uint8(i), uint8(i))
		}
	}
	if contentType == protobufType {
		for _, body := range costlyMessages(f) {
			f.Add(body, uint8(5), uint8(0)) // of builtIn: ResourceQuotas
		}
		fill := filler(1)
		for i, k := range builtIn() {
			for range 3 {
				f.Add(encode(f, peer.protobuf, k, fillObject(fill, k)), uint8(i), uint8(0))
			}
		}
	}
	f.Fuzz(func(t *testing.T, body []byte, which, validation uint8) {
		k := list[int(which)%len(list)]
		v := []codec.FieldValidation{codec.Strict, codec.Warn, codec.Ignore, ""}[validation%4]
		o, _, err := c.Decode(k, contentType, body, v)
		if err != nil {
			var refusal *namespace.Error
			if !errors.As(err, &refusal) {
				t.Fatalf("an error without a kind: %v", err)
			}
			return
		}
		checkForms(t, c, k, o)
	})
}

func checkForms(t *testing.T, c *codec.Codec, k kinds.Kind, o registry.Object) {
	t.Helper()
	document, err := c.Object(codec.Format{}, k, o, codec.TableOptions{})
	if err != nil {
		if o.CreationTimestamp.Year() > 9999 || strings.Contains(err.Error(), "a time must be") {
			return // the registry rejects it and names its path
		}
		t.Fatal(err)
	}
	if !json.Valid(document) {
		t.Fatalf("not JSON: %q", document)
	}
	again, warnings, err := c.Decode(k, jsonType, document, codec.Strict)
	if err != nil || len(warnings) > 0 {
		t.Fatalf("%v %v: %q", err, warnings, document)
	}
	if diff := cmp.Diff(o, again); diff != "" {
		t.Fatal(diff)
	}
	for _, accept := range []string{protobufType + "," + jsonType, table, metadata, yamlType} {
		f, err := c.Negotiate(accept, k, false)
		if err != nil {
			t.Fatal(err)
		}
		body, err := c.Object(f, k, o, codec.TableOptions{})
		if err != nil {
			t.Fatalf("%s: %v", accept, err)
		}
		if accept != yamlType {
			continue
		}
		if _, _, err := c.Decode(k, yamlType, body, codec.Strict); err != nil {
			t.Fatalf("%v: %q", err, body)
		}
	}
}

func FuzzDecodeJSON(f *testing.F)     { fuzzDecode(f, jsonType) }
func FuzzDecodeYAML(f *testing.F)     { fuzzDecode(f, yamlType) }
func FuzzDecodeProtobuf(f *testing.F) { fuzzDecode(f, protobufType) }

func FuzzDecodeDeleteOptions(f *testing.F) {
	c := newCodec(f)
	options := &metav1.DeleteOptions{DryRun: []string{"All"}}
	raw, err := options.Marshal()
	if err != nil {
		f.Fatal(err)
	}
	f.Add("application/json", []byte(`{"kind":"DeleteOptions","dryRun":["All"],"preconditions":{"uid":"u"}}`))
	f.Add("application/yaml", []byte("gracePeriodSeconds: 0"))
	f.Add(protobufType, append([]byte("k8s\x00"), raw...))
	f.Fuzz(func(t *testing.T, contentType string, body []byte) {
		got, err := c.DecodeDeleteOptions(contentType, body)
		var refusal *namespace.Error
		switch {
		case err == nil:
		case !errors.As(err, &refusal):
			t.Fatalf("an error without a kind: %v", err)
		case cmp.Diff(metav1.DeleteOptions{}, got) != "":
			t.Fatalf("options beside an error: %v", got)
		}
	})
}

func FuzzNegotiate(f *testing.F) {
	custom := widgets("")
	c := newCodec(f, custom)
	for _, accept := range []string{kubectlGet, typedBinary, metaClient, browser, dynamicCBOR, binaryStream, "*/*;q=0.000", ";;,q=", "a/b;as=Table;as=\"x"} {
		f.Add(accept, true, false)
	}
	o := registry.Object{Meta: namespace.Meta{Name: "x"}}
	f.Fuzz(func(t *testing.T, accept string, watch, builtin bool) {
		k := custom
		if builtin {
			k = kinds.ConfigMaps()
		}
		format, err := c.Negotiate(accept, k, watch)
		if err != nil {
			if !errors.Is(err, codec.ErrNotAcceptable) {
				t.Fatal(err)
			}
			return
		}
		if _, err := c.Object(format, k, o, codec.TableOptions{}); err != nil {
			t.Fatalf("%q is accepted, but: %v", accept, err)
		}
		if watch {
			if _, err := c.Event(format, k, "ADDED", o, codec.TableOptions{}); err != nil {
				t.Fatalf("%q is accepted, but: %v", accept, err)
			}
		}
	})
}
