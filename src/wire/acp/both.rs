//! What the versions of the protocol write and read alike. The crate has a type of its own for each version of a shape, so
//! that no function serves both: a macro writes each function for the version whose types its caller names `acp`.

macro_rules! written_alike {
    () => {
        fn session_id(session: &SessionId) -> acp::SessionId {
            acp::SessionId::new(session.as_str())
        }

        fn options(options: &[ShownOption]) -> Vec<acp::SessionConfigOption> {
            options.iter().map(option).collect()
        }

        /// A piece of text, as the notification of the crate writes it, without a copy of the text.
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Piece<'p> {
            session_id: &'p str,
            update: PieceUpdate<'p>,
        }

        #[derive(Serialize)]
        struct PieceText<'p> {
            r#type: &'static str,
            text: &'p str,
        }

        /// Appends a request to the editor, of an open session.
        pub fn request(out: &mut Vec<u8>, id: &str, home: &SessionId, request: &EditorRequest) {
            match request {
                EditorRequest::Permission(permission) => {
                    ask(out, id, "session/request_permission", &permission_request(home, permission));
                }
                EditorRequest::Form(message, form) => {
                    let scope = acp::ElicitationSessionScope::new(session_id(home));
                    let mode: acp::ElicitationMode = match form {
                        Form::Page(url) => {
                            acp::ElicitationUrlMode::new(scope, Arc::<str>::from(id), url.as_str()).into()
                        }
                        Form::Text => form_mode(scope, acp::StringPropertySchema::new()),
                        Form::Flag(usual) => {
                            form_mode(scope, acp::BooleanPropertySchema::new().default_value(*usual))
                        }
                        Form::Choice(names) => {
                            let options = numbers(names).map(|(id, name)| acp::EnumOption::new(id, name));
                            form_mode(
                                scope,
                                acp::StringPropertySchema::new().one_of(options.collect::<Vec<_>>()),
                            )
                        }
                    };
                    ask(
                        out,
                        id,
                        "elicitation/create",
                        &acp::CreateElicitationRequest::new(mode, message.as_str()),
                    );
                }
            }
        }

        fn form_mode(
            scope: acp::ElicitationSessionScope,
            field: impl Into<acp::ElicitationPropertySchema>,
        ) -> acp::ElicitationMode {
            acp::ElicitationFormMode::new(scope, acp::ElicitationSchema::new().property(FIELD, field, true))
                .into()
        }

        /// What the editor answered to a request. What cannot be read is a dismissal.
        pub fn said(as_form: bool, result: Result<Value<'_>, String>) -> EditorAnswer {
            let Ok(result) = result else { return EditorAnswer::Dismissed };
            let result = plain(&result);
            if !as_form {
                return match serde_json::from_value::<acp::RequestPermissionResponse>(result) {
                    Ok(acp::RequestPermissionResponse {
                        outcome: acp::RequestPermissionOutcome::Selected(selected),
                        ..
                    }) => EditorAnswer::Option(selected.option_id.0.to_string()),
                    _ => EditorAnswer::Dismissed,
                };
            }
            let Ok(response) = serde_json::from_value::<acp::CreateElicitationResponse>(result) else {
                return EditorAnswer::Dismissed;
            };
            match response.action {
                acp::ElicitationAction::Accept(accepted) => {
                    let Some(mut content) = accepted.content else { return EditorAnswer::Done };
                    match content.remove(FIELD) {
                        Some(acp::ElicitationContentValue::String(text)) => EditorAnswer::Text(text),
                        Some(acp::ElicitationContentValue::Boolean(yes)) => EditorAnswer::Flag(yes),
                        Some(_) => EditorAnswer::Dismissed,
                        None => EditorAnswer::Done,
                    }
                }
                acp::ElicitationAction::Decline => EditorAnswer::Declined,
                _ => EditorAnswer::Dismissed,
            }
        }

        fn category(category: Category) -> acp::SessionConfigOptionCategory {
            match category {
                Category::Mode => acp::SessionConfigOptionCategory::Mode,
                Category::Model => acp::SessionConfigOptionCategory::Model,
                Category::Thinking => acp::SessionConfigOptionCategory::ThoughtLevel,
                Category::Use => acp::SessionConfigOptionCategory::ModelConfig,
            }
        }

        fn values(values: &[ChoiceValue]) -> Vec<acp::SessionConfigSelectOption> {
            let value = |(id, name, about): &ChoiceValue| {
                let value = acp::SessionConfigSelectOption::new(Arc::<str>::from(id.as_str()), name);
                value.description(about.clone())
            };
            values.iter().map(value).collect()
        }

        fn entries(steps: &[PlanStep]) -> Vec<acp::PlanEntry> {
            let entry = |step: &PlanStep| {
                let status = match step.state {
                    CallState::Pending => acp::PlanEntryStatus::Pending,
                    CallState::Running => acp::PlanEntryStatus::InProgress,
                    CallState::Completed | CallState::Failed => acp::PlanEntryStatus::Completed,
                };
                acp::PlanEntry::new(step.text.as_str(), acp::PlanEntryPriority::Medium, status)
            };
            steps.iter().map(entry).collect()
        }

        fn compaction(state: CompactionState) -> acp::CompactionStatus {
            match state {
                CompactionState::Running => acp::CompactionStatus::InProgress,
                CompactionState::Completed => acp::CompactionStatus::Completed,
                CompactionState::Cancelled => acp::CompactionStatus::Cancelled,
                CompactionState::Failed => acp::CompactionStatus::Failed,
            }
        }

        fn permissions(permission: &Permission) -> Vec<acp::PermissionOption> {
            let numbered = numbers(&permission.numbered).map(|(id, name)| {
                acp::PermissionOption::new(Arc::<str>::from(id), name, acp::PermissionOptionKind::AllowOnce)
            });
            let named = permission.options.iter().map(|(id, name, kind)| {
                acp::PermissionOption::new(Arc::<str>::from(*id), name.as_str(), (*kind).into())
            });
            numbered.chain(named).collect()
        }
    };
}

pub(super) use written_alike;
