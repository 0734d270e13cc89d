"""The OpenAPI document: shapes of requests and answers, patterns, examples."""
