;;; edn-bridge-agents-tests.el --- Tests of the external agents  -*- lexical-binding: t; no-byte-compile: t; -*-

;; SPDX-License-Identifier: MIT OR Apache-2.0

;;; Code:

(require 'edn-bridge-test-support)
(require 'edn-bridge-live-tests)
(require 'edn-bridge-agents)
(require 'edn-bridge-models)

(defconst edn-bridge-agents-tests-agents
  '(:agents [(:name "claude" :source "user" :command "npx claude" :trusted t
              :sandbox t :usual :false :state "ready" :info "Claude\u202E 1.0"
              :sessions ["s1" "s2"])
             (:name "theirs" :source "project" :command "./agent"
              :trusted :false :sandbox t :usual :false :state "refused"
              :last-error "The project is not trusted: /trust shows."
              :sessions [])
             (:name "wild" :source "user" :command "wild" :trusted t
              :sandbox :false :usual t :state "failed"
              :last-error "wild: there is no such program." :sessions [])])
  "Agents as the bridge lists them.")

(defconst edn-bridge-agents-tests-options
  [(:id "model" :name "Model" :category "model" :about "Which one"
    :value "m-small"
    :values [(:id "m-small" :name "Small" :group "Old")
             (:id "m-large" :name "Large")])
   (:id "brave" :name "Brave" :value :false)]
  "Options as the bridge lists them.")

(defun edn-bridge-agents-tests-annotations (collection)
  "Return what COLLECTION offers, each with its annotation."
  (let ((note (completion-metadata-get (completion-metadata "" collection nil)
                                       'annotation-function)))
    (mapcar (lambda (name)
              (cons name (string-trim (substring-no-properties
                                       (funcall note name)))))
            (all-completions "" collection))))

(defmacro edn-bridge-agents-tests-choosing (names &rest body)
  "Run BODY, in which each of NAMES, a list, is chosen in turn.
What was offered is in `offered', the last first."
  (declare (indent 1) (debug t))
  `(let ((names ,names)
         (offered nil))
     (cl-letf (((symbol-function 'completing-read)
                (lambda (_prompt collection &rest _)
                  (push (edn-bridge-agents-tests-annotations collection)
                        offered)
                  (pop names))))
       ,@body
       (should-not names))))

(ert-deftest edn-bridge-agents-session-is-begun-with-one ()
  (edn-bridge-test-with-chat (conn sent)
    (cl-letf (((symbol-function 'edn-bridge-rpc-call)
               (lambda (_conn op _params)
                 (should (equal op "list_agents"))
                 edn-bridge-agents-tests-agents)))
      (edn-bridge-agents-tests-choosing '("claude")
        (call-interactively #'edn-bridge-agents-new)
        (should (equal (car offered)
                       '(("claude" . "runs, Claude\\u{202E} 1.0, 2 sessions, npx claude")
                         ("wild" . "wild: there is no such program., not in a sandbox, usual, wild")
                         ("theirs" . "not trusted, of the project, ./agent")))))
      (should (equal (plist-get (car sent) :op) "new_session"))
      (should (equal (plist-get (car sent) :params) '(:agent "claude")))
      (edn-bridge-test-answer conn sent "new_session" :session-id "s9")
      (should (equal edn-bridge-chat--session-id "s9"))
      ;; One that is not trusted says what to do.
      (edn-bridge-agents-tests-choosing '("theirs")
        (should (string-match-p
                 "/trust"
                 (cadr (should-error (call-interactively #'edn-bridge-agents-new)
                                     :type 'user-error)))))
      ;; Names that can be used are completed after /new.
      (insert "/new c")
      (pcase-let ((`(,_from ,_to ,table . ,_) (edn-bridge-complete-at-point)))
        (should (equal (all-completions "" table) '("claude" "wild")))))
    (cl-letf (((symbol-function 'edn-bridge-rpc-call)
               (lambda (&rest _) '(:agents []))))
      (should (string-match-p
               "No agent is configured"
               (cadr (should-error (call-interactively #'edn-bridge-agents-new)
                                   :type 'user-error)))))))

(ert-deftest edn-bridge-agents-options-are-seen-and-set ()
  (edn-bridge-test-with-chat (conn sent)
    (should-error (call-interactively #'edn-bridge-agents-set-option)
                  :type 'user-error)
    (edn-bridge-test-event conn "session/updated" :session-id "s1"
                           :agent '(:name "claude") :options [])
    ;; Before the first turn the agent is asked, and nothing waits for it.
    (should-error (call-interactively #'edn-bridge-agents-set-option)
                  :type 'user-error)
    (edn-bridge-test-event conn "session/updated" :session-id "s1"
                           :agent '(:name "claude")
                           :options edn-bridge-agents-tests-options)
    (edn-bridge-test-answer conn sent "agent_options"
                            :options edn-bridge-agents-tests-options)
    (should (string-search "What can be chosen at claude is known"
                           (edn-bridge-test-transcript)))
    (edn-bridge-agents-tests-choosing '("Brave" "on")
      (edn-bridge-test-push "Choose")
      (should (equal offered '((("on" . "") ("off" . "now"))
                               (("Model" . "Small, Which one")
                                ("Brave" . "off"))))))
    (should (equal (plist-get (car sent) :op) "set_option"))
    (should (equal (plist-get (car sent) :params) '(:option "brave" :value t)))
    (edn-bridge-test-event conn "session/updated" :session-id "s1"
                           :agent '(:name "claude")
                           :options edn-bridge-agents-tests-options)
    (dolist (how '(edn-bridge-agents-set-option edn-bridge-models-choose))
      (edn-bridge-agents-tests-choosing
          (if (eq how 'edn-bridge-models-choose) '("Large") '("Model" "Large"))
        (call-interactively how)
        (should (equal (car offered) '(("Small" . "Old, now") ("Large" . "")))))
      (should (equal (plist-get (car sent) :params)
                     '(:option "model" :value "m-large"))))
    (should (string-match-p
             "has no choice of thinking levels"
             (cadr (should-error (call-interactively #'edn-bridge-models-think)
                                 :type 'user-error))))))

;;;; With the real program and the scripted agent

(defconst edn-bridge-agents-tests-program
  (expand-file-name "../../tests/agents/agent.py" edn-bridge-test-directory)
  "The scripted agent.")

(defmacro edn-bridge-agents-tests-with-agent (mode &rest body)
  "Run BODY in a chat whose configuration has the scripted agent in MODE."
  (declare (indent 1) (debug t))
  `(edn-bridge-live-tests-with-program "hello.edn"
     (skip-unless (executable-find "python3"))
     (let* ((config (expand-file-name "config.edn" edn-bridge-live-tests-state))
            (edn-bridge-program-args
             (append (list "--config" config) edn-bridge-program-args)))
       (with-temp-file config
         (insert (format "{:agents {\"scripted\" {:command [\"python3\" %S] :env {\"STARTED\" %S \"AGENT_MODE\" %S}}}}"
                         edn-bridge-agents-tests-program
                         (expand-file-name "started" folder) ,mode)))
       (with-current-buffer (edn-bridge-chat-buffer)
         (edn-bridge-live-tests-wait-ready)
         ,@body))))

(defun edn-bridge-agents-tests-begin ()
  "Turn this chat to a session with the scripted agent."
  (let ((before edn-bridge-chat--session-id))
    (edn-bridge-agents-tests-choosing '("scripted")
      (call-interactively #'edn-bridge-agents-new))
    (edn-bridge-test-wait
     (and (not (equal edn-bridge-chat--session-id before))
          (edn-bridge-agents-here)))))

(ert-deftest edn-bridge-agents-live-turn-is-shown-with-plan-and-header ()
  (edn-bridge-agents-tests-with-agent ""
    (edn-bridge-test-wait (equal edn-bridge-complete-agents '("scripted")))
    (edn-bridge-agents-tests-begin)
    (should (string-search "agent scripted" (edn-bridge-chat--header-line)))
    (edn-bridge-live-tests-say
     "plan; say Looking.; call c execute; input c make test; run c; done c all well; say Done.")
    (let ((text (edn-bridge-test-transcript)))
      (should (string-search "Looking." text))
      (should (string-search "bash" text))
      (should (string-search "Done." text)))
    (should (string-search "agent scripted · m-small"
                           (edn-bridge-chat--header-line)))
    (let ((shown (buffer-string)))
      (should (string-search "✓ First" shown))
      (should (string-search "● Second" shown)))
    ;; Its options.
    (edn-bridge-agents-tests-choosing '("Large")
      (call-interactively #'edn-bridge-models-choose))
    (edn-bridge-test-wait
     (string-search "agent scripted · m-large" (edn-bridge-chat--header-line)))
    (edn-bridge-agents-tests-choosing '("Brave" "on")
      (call-interactively #'edn-bridge-agents-set-option))
    (edn-bridge-test-wait
     (seq-some (lambda (option)
                 (and (equal (plist-get option :id) "brave")
                      (edn-bridge-edn-true-p (plist-get option :value))))
               (edn-bridge-chat-get :options)))))

(ert-deftest edn-bridge-agents-live-options-before-the-first-turn ()
  (edn-bridge-agents-tests-with-agent ""
    (edn-bridge-agents-tests-begin)
    (should-error (call-interactively #'edn-bridge-models-choose)
                  :type 'user-error)
    (edn-bridge-test-wait
     (string-search "[Choose]" (edn-bridge-test-transcript)))
    (edn-bridge-agents-tests-choosing '("Large")
      (edn-bridge-test-push "Choose"))
    (edn-bridge-test-wait
     (string-search "agent scripted · m-large" (edn-bridge-chat--header-line)))))

(ert-deftest edn-bridge-agents-live-permission-shows-the-change ()
  (edn-bridge-agents-tests-with-agent ""
    (edn-bridge-agents-tests-begin)
    (goto-char (point-max))
    (insert "ask c edit always,once,no diff=new.txt@hello; write new.txt hello; done c; say Written.")
    (edn-bridge-input-send)
    (edn-bridge-test-wait
     (string-search "[Allow once" (edn-bridge-test-transcript)))
    (should (string-search "+hello" (edn-bridge-test-transcript)))
    (edn-bridge-interact-next)
    (edn-bridge-interact-accept)
    (edn-bridge-test-wait (file-exists-p (expand-file-name "new.txt")))
    (should (equal (with-temp-buffer
                     (insert-file-contents (expand-file-name "new.txt"))
                     (buffer-string))
                   "hello"))))

(provide 'edn-bridge-agents-tests)

;;; edn-bridge-agents-tests.el ends here
