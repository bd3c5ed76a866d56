use crate::header;

/// The ids by which one request is found again: at the caller, at ARM and here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Correlation {
    /// Of all requests that belong together.
    pub correlation_id: Option<String>,
    /// What the caller's tool gave its request.
    pub client_request_id: Option<String>,
    /// Whether the caller wants its own id back.
    pub return_client_request_id: bool,
}

/// No id of a well-meaning caller is longer; what is goes into no log and no answer.
const LONGEST: usize = 256;

impl Correlation {
    /// From the headers of a request. An id that could not be sent back as it is, is as good as none.
    pub fn of_headers<'a>(header: impl Fn(&str) -> Option<&'a str>) -> Self {
        let id = |name: &str| {
            header(name)
                .map(str::trim)
                .filter(|id| !id.is_empty() && id.len() <= LONGEST)
                .filter(|id| id.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' '))
                .map(str::to_owned)
        };
        Self {
            correlation_id: id(header::CORRELATION_REQUEST_ID),
            client_request_id: id(header::CLIENT_REQUEST_ID),
            return_client_request_id: header(header::RETURN_CLIENT_REQUEST_ID)
                .is_some_and(|value| value.trim().eq_ignore_ascii_case("true")),
        }
    }

    /// What goes out with the answer to the request that was given `request_id`.
    pub fn answer_headers<'a>(
        &'a self,
        request_id: &'a str,
    ) -> impl Iterator<Item = (&'static str, &'a str)> {
        let echoed = self.client_request_id.as_deref().filter(|_| self.return_client_request_id);
        [(header::REQUEST_ID, Some(request_id)), (header::CLIENT_REQUEST_ID, echoed)]
            .into_iter()
            .filter_map(|(name, value)| Some((name, value?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(headers: &[(&str, &'static str)]) -> Correlation {
        Correlation::of_headers(|name| {
            headers.iter().find(|(found, _)| *found == name).map(|(_, value)| *value)
        })
    }

    #[test]
    fn the_callers_id_goes_back_only_when_asked_for() {
        let ids = [(header::CLIENT_REQUEST_ID, " mine "), (header::CORRELATION_REQUEST_ID, "all")];
        let kept = of(&ids);
        assert_eq!(kept.correlation_id.as_deref(), Some("all"));
        assert_eq!(kept.answer_headers("r").collect::<Vec<_>>(), [(header::REQUEST_ID, "r")]);
        let echoed = of(&[ids[0], ids[1], (header::RETURN_CLIENT_REQUEST_ID, "True")]);
        assert_eq!(
            echoed.answer_headers("r").collect::<Vec<_>>(),
            [(header::REQUEST_ID, "r"), (header::CLIENT_REQUEST_ID, "mine")]
        );
    }

    #[test]
    fn an_id_that_cannot_be_sent_back_is_none() {
        for id in ["", "  ", "a\nb", "ä"] {
            assert_eq!(of(&[(header::CLIENT_REQUEST_ID, id)]).client_request_id, None, "{id:?}");
        }
        let long: &'static str = "x".repeat(257).leak();
        assert_eq!(of(&[(header::CORRELATION_REQUEST_ID, long)]).correlation_id, None);
    }
}
