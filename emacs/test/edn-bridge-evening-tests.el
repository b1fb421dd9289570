;;; edn-bridge-evening-tests.el --- Tests of what is told while one works  -*- lexical-binding: t; no-byte-compile: t; -*-

;; SPDX-License-Identifier: MIT OR Apache-2.0

;;; Code:

(require 'edn-bridge-test-support)

(ert-deftest edn-bridge-chat-tells-what-it-waits-for ()
  (edn-bridge-test-with-chat (conn _sent)
    (let ((now 1000.0))
      (cl-letf (((symbol-function 'float-time) (lambda (&rest _) now)))
        (cl-flet ((state () (substring-no-properties
                             (edn-bridge-chat-run-state)))
                  (told (&rest more)
                    (apply #'edn-bridge-test-event conn "session/updated"
                           :session-id "s1" :model-id "m-1" more)))
          (told :is-streaming t :phase "running")
          (should (equal (state) "running"))
          (cl-incf now 14)
          (should (equal (state) "running, no word from m-1 for 14 s"))
          (edn-bridge-test-event conn "assistant/delta" :text "Hi")
          (should (equal (state) "running"))
          (edn-bridge-test-event conn "tool/executing" :tool-id "c1"
                                 :tool-name "bash")
          (should (equal (state) "bash"))
          (cl-incf now 1)
          (should (equal (state) "bash 1 s"))
          ;; So does its row.
          (edn-bridge-chat--tick (current-buffer))
          (goto-char (point-min))
          (search-forward "running")
          (should (equal "    1 s" (get-text-property (1- (point)) 'display)))
          ;; Its output does not make it younger.
          (edn-bridge-test-event conn "tool/update" :tool-id "c1"
                                 :tool-name "bash" :result-text "one")
          (edn-bridge-test-event conn "tool/executing" :tool-id "c2"
                                 :tool-name "read")
          (cl-incf now 74)
          (told :is-streaming t :phase "running")
          (should (equal (state) "bash, read 1:15"))
          (edn-bridge-test-event conn "tool/result" :tool-id "c2"
                                 :tool-name "read" :result-text "")
          (edn-bridge-test-event conn "tool/result" :tool-id "c1"
                                 :tool-name "bash" :result-text "")
          (should (equal (state) "running"))
          (should edn-bridge-chat--clock)
          ;; A failed call of the model: again when, and why.
          (edn-bridge-test-event conn "turn/retry" :session-id "s1" :attempt 3
                                 :kind "rate-limited" :pause-ms 4000)
          (told :is-streaming t :retry-attempt 3 :retry '(:attempt 3)
                :retry-deadline-ms (* 1000 (+ now 4)))
          (should (equal (state) "retry 3 in 4 s: rate limit"))
          (told :is-streaming :false)
          (should (equal (state) "idle"))
          (should-not edn-bridge-chat--clock))))))

(ert-deftest edn-bridge-chat-tells-how-long-the-model-thinks ()
  (edn-bridge-test-with-chat (conn _sent)
    (let ((now 1000.0))
      (cl-letf (((symbol-function 'float-time) (lambda (&rest _) now)))
        (cl-flet ((state () (substring-no-properties
                             (edn-bridge-chat-run-state)))
                  (told (activity)
                    (edn-bridge-test-event conn "session/updated"
                                           :session-id "s1" :is-streaming t
                                           :activity activity)))
          (told '(:kind "thinking" :since-ms 1000000))
          (should (equal (state) "thinking"))
          (edn-bridge-test-event conn "assistant/thinking-delta" :text "Hm.")
          (cl-incf now 62)
          (should (equal (state) "thinking 1:02"))
          (told '(:kind "calling" :since-ms 1059000 :tool-name "wri%te"))
          (should (equal (state) "writing wri%%te 3 s"))
          (edn-bridge-test-event conn "assistant/delta" :text "Done.")
          (edn-bridge-test-event conn "assistant/message" :role "assistant"
                                 :content "Done.")
          (should (string-prefix-p "Thought for 1:02\nHm."
                                   (edn-bridge-test-transcript))))))
    ;; The journal knows it better.
    (edn-bridge-test-event
     conn "session/rehydrated" :messages
     [(:id "e1" :role "assistant"
       :content [(:type :thinking :text "Hm." :duration-ms 4200)
                 (:type :text :text "Done.")])])
    (should (string-prefix-p "Thought for 4 s\nHm."
                             (edn-bridge-test-transcript)))))

(ert-deftest edn-bridge-interact-tells-how-a-command-would-run ()
  (edn-bridge-test-with-chat (conn _sent)
    (edn-bridge-test-event conn "tool/start" :tool-id "c1" :tool-name "bash"
                           :parsed-args '(:command "make" :background t
                                                   :timeout-seconds 600))
    (edn-bridge-test-ask conn "approve" '(:tool "bash" :tool-id "c1"
                                                :command "make"))
    (let ((text (edn-bridge-test-transcript)))
      (should (string-search "In the background" text))
      (should (string-search "At most 600 seconds" text)))))

(ert-deftest edn-bridge-interact-names-subagents-and-models-for-people ()
  (edn-bridge-test-with-chat (conn _sent)
    (edn-bridge-test-ask
     conn "approve-subagent-envelope"
     '(:subagent-id "s-01a2" :depth 1 :prompt-summary "Count the files"
                    :requested-envelope ["read" "find"]
                    :model (:provider "work" :id "large")))
    (let ((text (edn-bridge-test-transcript)))
      (should (string-search "Start a subagent?\n  task Count the files" text))
      (should (string-search "model work/large" text))
      (dolist (internal '("s-01a2" "depth" "{" ":provider"))
        (should-not (string-search internal text))))
    (edn-bridge-test-event
     conn "interaction/requested" :interaction-id "i3"
     :kind "approve-subagent-envelope" :session-id "s1"
     :payload '(:subagent-id "s-01a3" :depth 1 :prompt-summary "Count again"
                             :requested-envelope ["read"] :agent "claude"
                             :model (:provider "claude" :id "")))
    (should (string-search "agent claude" (edn-bridge-test-transcript)))
    (edn-bridge-test-event conn "interaction/requested"
                           :interaction-id "i2" :kind "confirm"
                           :subagent-id "s-01a2" :session-id "s1"
                           :payload '(:prompt "Go on?"))
    (should (string-search "[subagent: Count the files] Go on?"
                           (edn-bridge-test-transcript)))))

(ert-deftest edn-bridge-interact-digit-chooses-an-option ()
  (edn-bridge-test-with-chat (conn sent)
    (edn-bridge-test-ask conn "select"
                         '(:prompt "Which?" :options [(:label "a") (:label "b")]))
    (edn-bridge-interact-next)
    (should (eq (key-binding "2") #'edn-bridge-interact-choose-option))
    (should-error (edn-bridge-interact-choose-option 3) :type 'user-error)
    (edn-bridge-interact-choose-option 2)
    (should (equal (plist-get (plist-get (car sent) :params) :value)
                   '(:index 1)))))

(ert-deftest edn-bridge-interact-login-has-one-place-and-a-page ()
  (edn-bridge-test-with-chat (conn _sent)
    (setf (edn-bridge-rpc-connection-features conn) '("interactor"))
    (edn-bridge-test-event conn "command-result" :type "login_start"
                           :message "Log in")
    (edn-bridge-test-ask conn "auth.password"
                         '(:prompt "What X shows you at https://a.b/c"))
    (let ((gone nil)
          (text (edn-bridge-test-transcript)))
      (should-not (string-search "[Enter it]" text))
      (should (string-search "[Enter the API key or code]" text))
      (cl-letf (((symbol-function 'browse-url)
                 (lambda (url &rest _) (setq gone url))))
        (goto-char (point-min))
        (search-forward "  https://a")
        (push-button (1- (point)))
        (should (equal gone "https://a.b/c"))))))

(ert-deftest edn-bridge-input-failed-answer-can-be-asked-for-again ()
  (edn-bridge-test-with-chat (conn sent)
    (insert "Hi")
    (edn-bridge-input-send)
    (edn-bridge-test-event conn "assistant/message" :role "assistant"
                           :content "" :error-message "It went away")
    (setq sent nil)
    (edn-bridge-test-push "Try again")
    (should (equal (plist-get (plist-get (car sent) :params) :message) "Hi"))))

(ert-deftest edn-bridge-input-some-commands-are-done-by-emacs ()
  (edn-bridge-test-with-chat (_conn sent)
    (let ((done nil))
      (cl-letf (((symbol-function 'edn-bridge-jobs)
                 (lambda () (interactive) (setq done t))))
        (insert "/jobs")
        (edn-bridge-input-send)
        (should done)
        (should-not sent)
        (should (equal (edn-bridge-transcript-draft) ""))
        (insert "/jobs x")
        (edn-bridge-input-send)
        (should (equal (plist-get (car sent) :op) "command"))))))

(ert-deftest edn-bridge-models-usable-ones-come-first ()
  (should (equal (edn-bridge-models--usable-first
                  '((:id "a" :usable :false) (:id "b" :usable t)
                    (:id "c")))
                 '((:id "b" :usable t) (:id "c")
                   (:id "a" :usable :false)))))

(ert-deftest edn-bridge-jobs-view-looks-for-output-while-a-job-runs ()
  (edn-bridge-test-with-chat (_conn sent)
    (let ((chat (current-buffer)))
      (save-window-excursion
        (with-temp-buffer
          (edn-bridge-jobs-view-mode)
          (setq edn-bridge-jobs--chat chat
                edn-bridge-jobs--id "j1")
          (edn-bridge-jobs--show-job '(:id "j1" :status "running" :output "a"))
          (should edn-bridge-jobs--timer)
          ;; Nobody sees it.
          (edn-bridge-jobs--look (current-buffer))
          (should-not sent)
          (set-window-buffer (selected-window) (current-buffer))
          (edn-bridge-jobs--look (current-buffer))
          (should (equal (plist-get (car sent) :op) "inspect_background_job"))
          (edn-bridge-jobs--show-job '(:id "j1" :status "done" :output "ab"))
          (should-not edn-bridge-jobs--timer))))))

(ert-deftest edn-bridge-trust-is-told-where-it-is-missing ()
  (let ((default-directory (file-name-as-directory
                            (make-temp-file "edn-bridge" t))))
    (unwind-protect
        (edn-bridge-test-with-chat (conn sent)
          (cl-flet ((told (trusted)
                      (setq sent nil)
                      (edn-bridge-test-event conn "session/rehydrated"
                                             :session-id "s1" :messages [])
                      (when (cl-find "query_eql" sent :test #'equal
                                     :key (lambda (frame)
                                            (plist-get frame :op)))
                        (edn-bridge-test-answer
                         conn sent "query_eql" :result
                         (list :psi.config/settings
                               (vector '(:psi.config/key :mode
                                         :psi.config/value "ask")
                                       (list :psi.config/key :trusted
                                             :psi.config/value trusted)))))
                      (and (string-search "/trust shows it"
                                          (edn-bridge-transcript-footer))
                           t)))
            ;; There is nothing to trust.
            (should-not (told :false))
            (make-directory ".edn-bridge")
            (write-region "{}" nil ".edn-bridge/config.edn" nil 'quiet)
            (should (told :false))
            (should-not (told t))))
      (delete-directory default-directory t))))

(ert-deftest edn-bridge-trust-is-asked-for-what-is-shown ()
  (let ((default-directory (file-name-as-directory
                            (make-temp-file "edn-bridge" t))))
    (unwind-protect
        (edn-bridge-test-with-chat (conn sent)
          (should-error (edn-bridge-trust) :type 'user-error)
          (make-directory ".edn-bridge/workflows" t)
          (write-region "{:hooks [\"rm\"]}\n" nil ".edn-bridge/config.edn"
                        nil 'quiet)
          (write-region "{:stages []}" nil ".edn-bridge/workflows/w.edn"
                        nil 'quiet)
          (insert "/trust")
          (save-window-excursion
            (edn-bridge-input-send)
            (should (equal (plist-get (car sent) :op) "trust_preview"))
            ;; An older bridge cannot tell.
            (edn-bridge-rpc--dispatch-frame
             conn (list :kind :error :id (plist-get (car sent) :id)
                        :op "trust_preview" :error-message "No"
                        :error-code "request/op-not-supported"))
            (setq sent nil)
            (with-current-buffer "*edn-bridge trust*"
              (let ((text (buffer-string)))
                (should (string-search "{:hooks [\"rm\"]}" text))
                (should (string-search "{:stages []}" text)))
              (should (eq (key-binding (kbd "TAB")) #'forward-button))
              (should (eq (key-binding (kbd "<backtab>")) #'backward-button))
              (should (eq (key-binding "q") #'quit-window))
              ;; Something else would be trusted now.
              (write-region "{:hooks [\"evil\"]}" nil
                            ".edn-bridge/config.edn" nil 'quiet)
              (should-error (edn-bridge-test-push "Trust this")
                            :type 'user-error)
              (should-not sent))
            (edn-bridge-trust)
            (edn-bridge-test-answer
             conn sent "trust_preview" :trusted :false :trust "changed"
             :runs [(:kind "hook" :name "evil" :text "runs a\u202Eb")]
             :problems ["A file is missing"])
            (with-current-buffer "*edn-bridge trust*"
              (let ((text (buffer-string)))
                (should (string-search "It was trusted, and has changed" text))
                (should (string-search "hook evil: runs a\\u{202E}b\n" text))
                (should (string-search "! A file is missing" text)))
              (edn-bridge-test-push "Trust this")))
          (should (equal (plist-get (car sent) :op) "trust_project"))
          ;; The bridge trusts what was shown, and nothing that came later.
          (let ((files (plist-get (plist-get (car sent) :params) :files)))
            (should (= (hash-table-count files) 2))
            (should (equal (gethash ".edn-bridge/config.edn" files)
                           (secure-hash 'sha256 "{:hooks [\"evil\"]}"))))
          ;; Nor does it trust what is too long to be shown.
          (with-temp-file ".edn-bridge/config.edn"
            (insert (make-string edn-bridge-trust--limit ?\;) "\n{:hooks []}"))
          (save-window-excursion
            (edn-bridge-trust)
            (edn-bridge-test-answer conn sent "trust_preview" :trust "untrusted")
            (with-current-buffer "*edn-bridge trust*"
              (should (string-search "is not shown" (buffer-string)))
              (should-not (string-search "[Trust this]" (buffer-string)))))
          (kill-buffer "*edn-bridge trust*")
          ;; What the bridge has seen is what is shown, or nothing is.
          (write-region "{}" nil ".edn-bridge/config.edn" nil 'quiet)
          (edn-bridge-trust)
          (should-error (edn-bridge-test-answer
                         conn sent "trust_preview" :trust "untrusted"
                         :files (let ((files (make-hash-table :test #'equal)))
                                  (puthash ".edn-bridge/config.edn" "0" files)
                                  files)))
          (should-not (get-buffer "*edn-bridge trust*")))
      (delete-directory default-directory t))))

(ert-deftest edn-bridge-transcript-fills-windows-from-any-buffer ()
  (edn-bridge-test-with-chat (conn _sent)
    (edn-bridge-test-event conn "assistant/delta" :text "a\nb\nc\n")
    (let ((chat (current-buffer)))
      (save-window-excursion
        (set-window-buffer (selected-window) chat)
        (set-window-start (selected-window) (point-max))
        (set-window-point (selected-window) (point-max))
        (with-temp-buffer
          (edn-bridge-transcript-fill-windows (selected-window))
          (edn-bridge-transcript-fill-windows))
        (should (= (window-start) (point-min)))))))

(provide 'edn-bridge-evening-tests)

;;; edn-bridge-evening-tests.el ends here
