package codec

// Document returns a document in YAML, or in JSON, which is YAML too, as one JSON
// object. A field given twice is an error, and what its aliases repeat is bounded.
func Document(body []byte) ([]byte, error) { return documentOf(encodeYAML, body) }
