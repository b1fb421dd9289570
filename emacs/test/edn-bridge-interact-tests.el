;;; edn-bridge-interact-tests.el --- Tests of questions  -*- lexical-binding: t; no-byte-compile: t; -*-

;; SPDX-License-Identifier: MIT OR Apache-2.0

;;; Code:

(require 'edn-bridge-test-support)

(defconst edn-bridge-interact-tests-questions
  '(("approve" (:tool "bash" :tool-id "c1" :call-summary "rm x"
                      :command "rm x" :suggested-rule "bash rm")
     "Allow once" (:outcome "approve" :scope "once"))
    ("approve" (:tool "bash" :tool-id "c1" :call-summary "rm x"
                      :command "rm x" :suggested-rule "bash rm")
     "Allow for this" (:outcome "approve" :scope "session"))
    ("approve" (:tool "bash" :tool-id "c1" :call-summary "rm x"
                      :command "rm x" :suggested-rule "bash rm")
     "Allow always" (:outcome "approve" :scope "rule" :rule "bash rm"))
    ("confirm" (:prompt "Sure?" :default t :danger t) "Yes" (:ok t))
    ("confirm" (:prompt "Sure?" :default :false) "No" (:ok :false))
    ("select" (:prompt "Which?" :options [(:label "A" :value 1)
                                          (:label "B" :value 2)])
     "B" (:index 1))
    ("auth.device-code" (:provider "p" :url "https://a" :code "XY"
                                   :expires-at "later")
     "Done" (:done t))
    ("grant-stage-tool" (:stage-execution-id "x" :attempt 0 :proposal-id "p"
                                             :tool "bash" :args-digest "d"
                                             :args-summary "ls")
     "Grant" (:outcome "approve"))
    ("grant-stage-tool" (:stage-execution-id "x" :attempt 0 :proposal-id "p"
                                             :tool "bash" :args-digest "d"
                                             :args-summary "ls")
     "Later" (:outcome "defer"))
    ("approve-subagent-envelope" (:subagent-id "sub" :depth 1
                                               :prompt-summary "Do it")
     "Start" (:outcome "approve")))
  "Kinds of questions, payloads, buttons and the values that they answer.")

(ert-deftest edn-bridge-interact-answers-by-buttons ()
  (pcase-dolist (`(,kind ,payload ,button ,value)
                 edn-bridge-interact-tests-questions)
    (edn-bridge-test-with-chat (conn sent)
      (edn-bridge-test-ask conn kind payload)
      (should (= 1 (edn-bridge-interact-pending)))
      (edn-bridge-test-push button)
      (ert-info ((format "%s: %s" kind button))
        (should (equal (plist-get (car sent) :op) "interaction_respond"))
        (should (equal (plist-get (car sent) :params)
                       (list :interaction-id "i1" :status "accepted"
                             :value value))))
      (edn-bridge-test-event conn "interaction/answered"
                             :interaction-id "i1" :correlation-id "t1"
                             :status "accepted" :ext-id "emacs")
      ;; Whose answer that was the response says.
      (should (= 1 (edn-bridge-interact-pending)))
      (edn-bridge-test-answer conn sent "interaction_respond" :accepted t)
      (should (zerop (edn-bridge-interact-pending)))
      (should-not (string-match-p "\\[Cancel (q)\\]" (edn-bridge-test-transcript)))
      (should (string-match-p (concat "→ " button)
                              (edn-bridge-test-transcript))))))

(ert-deftest edn-bridge-interact-question-settled-elsewhere-says-so ()
  (edn-bridge-test-with-chat (conn sent)
    (edn-bridge-test-ask conn "confirm" '(:prompt "Sure?"))
    (edn-bridge-test-event conn "interaction/answered"
                           :interaction-id "i1" :correlation-id "t1"
                           :status "accepted" :ext-id "other")
    (should-not sent)
    (should (zerop (edn-bridge-interact-pending)))
    ;; Its keys must not answer the next question.
    (goto-char (point-min))
    (search-forward "Sure")
    (should-not (get-char-property (point) 'keymap))
    (should (string-match-p "→ accepted" (edn-bridge-test-transcript)))))

(ert-deftest edn-bridge-interact-answers-by-the-minibuffer-once-asked-to ()
  (pcase-dolist
      (`(,kind ,payload ,button ,typed ,params)
       '(("approve" (:tool "bash" :command "rm x") "Reject" "too risky"
          (:value (:outcome "deny") :note "too risky"))
         ("ask" (:prompt "Name?") "Answer]" "Ada" (:value (:text "Ada")))
         ("auth.password" (:prompt "Key") "Enter" "s3cret"
          (:value (:secret "s3cret")))))
    (edn-bridge-test-with-chat (conn sent)
      (let ((given nil))
        (cl-letf (((symbol-function 'read-string) (lambda (&rest _) typed))
                  ((symbol-function 'read-passwd)
                   (lambda (&rest _) (copy-sequence typed)))
                  ;; The secret is cleared once it is sent.
                  ((symbol-function 'edn-bridge-rpc--send)
                   (lambda (_conn frame)
                     (setq given (edn-bridge-edn-print-string
                                  (plist-get frame :params))))))
          (edn-bridge-test-ask conn kind payload)
          (should-not given)
          (edn-bridge-test-push button))
        (ignore sent)
        (should (equal given
                       (edn-bridge-edn-print-string
                        (append '(:interaction-id "i1" :status "accepted")
                                params))))))))

(ert-deftest edn-bridge-interact-does-not-show-twice-what-was-decided ()
  (pcase-dolist
      (`(,button ,shown)
       '(("Allow once" "Assistant\n▸ bash     rm x allowed once\n")
         ("Reject" "Assistant\n▸ bash     rm x rejected: no\n")
         ("Cancel" "Assistant\n▸ bash     rm x cancelled\n")))
    (edn-bridge-test-with-chat (conn sent)
      (edn-bridge-transcript-set-draft "draft")
      (edn-bridge-test-event conn "tool/start" :session-id "s1" :tool-id "c1"
                             :tool-name "bash" :call-summary "rm x")
      (edn-bridge-test-ask conn "approve"
                           '(:tool "bash" :tool-id "c1" :command "rm x"))
      (cl-letf (((symbol-function 'read-string) (lambda (&rest _) "no")))
        (edn-bridge-test-push button))
      ;; Who answered goes on in the draft.
      (should (= (point) (point-max)))
      (edn-bridge-test-answer conn sent "interaction_respond" :accepted t)
      (should (equal (edn-bridge-test-transcript) shown))
      (should (equal (edn-bridge-transcript-draft) "draft"))
      (goto-char (edn-bridge-transcript-draft-start))
      (insert "my "))))

(ert-deftest edn-bridge-interact-says-rules-in-words ()
  (pcase-dolist
      (`(,rule ,words)
       '(((:decision :allow :tool "bash" :command "ls -l" :exact t)
          "this command, word for word")
         ((:decision :allow :tool "bash" :command "ls" :exact t)
          "this command, word for word: ls")
         ((:decision :allow :tool "bash" :command "git log")
          "each command that begins with: git log")
         ((:decision :allow :tool "edit" :path "src/*") "edit of src/*")
         ;; For these there are no words.
         ((:decision :allow :tool "edit" :path "a" :mode "x")
          "{:decision :allow :tool \"edit\" :path \"a\" :mode \"x\"}")
         ((:decision :deny :tool "edit" :path "a")
          "{:decision :deny :tool \"edit\" :path \"a\"}")
         ((:decision :allow :tool "edit") "{:decision :allow :tool \"edit\"}")
         ("any text" "any text")))
    (should (equal (edn-bridge-interact--rule-label rule "ls -l") words))))

(ert-deftest edn-bridge-interact-knows-arguments-of-a-streamed-call ()
  (edn-bridge-test-with-chat (conn _sent)
    ;; As the program tells: the call before its arguments.
    (edn-bridge-test-event conn "tool/start" :session-id "s1" :tool-id "c1"
                           :tool-name "bash" :call-summary "bash {}")
    (edn-bridge-test-event
     conn "assistant/message" :session-id "s1" :role "assistant"
     :content [(:type :tool-call :id "c1" :name "bash"
                      :arguments (:command "make" :background t
                                           :timeout-seconds 60))])
    (edn-bridge-test-ask conn "approve" '(:tool "bash" :tool-id "c1"
                                                :command "make"))
    (let ((text (edn-bridge-test-transcript)))
      (should (string-search "In the background" text))
      (should (string-search "At most 60 seconds" text)))))

(ert-deftest edn-bridge-interact-says-above-the-draft-that-questions-wait ()
  (edn-bridge-test-with-chat (conn _sent)
    (cl-flet ((above () (edn-bridge-transcript-footer)))
      (edn-bridge-test-ask conn "confirm" '(:prompt "Sure?"))
      (should (string-match-p "A question waits; C-c C-a goes there" (above)))
      (should (string-match-p " · asks" (edn-bridge-chat--header-line)))
      (edn-bridge-test-event conn "interaction/requested"
                             :interaction-id "i2" :kind "confirm"
                             :session-id "s1" :payload '(:prompt "And?"))
      (should (string-match-p "2 questions wait" (above)))
      (dolist (id '("i1" "i2"))
        (edn-bridge-test-event conn "interaction/answered"
                               :interaction-id id :status "accepted"))
      (should-not (string-match-p "wait" (above)))
      (should-not (string-match-p "asks" (edn-bridge-chat--header-line))))))

(ert-deftest edn-bridge-interact-does-not-wait-without-a-connection ()
  (edn-bridge-test-with-chat (conn _sent)
    (edn-bridge-test-ask conn "confirm" '(:prompt "Sure?"))
    (edn-bridge-rpc--closed conn "gone")
    (should (zerop (edn-bridge-interact-pending)))
    (should-not edn-bridge-chat-asking)
    (should (string-match-p "^Sure\\? → the connection was lost\n\nDisconnected"
                            (edn-bridge-test-transcript)))))

(ert-deftest edn-bridge-interact-says-when-another-answered-first ()
  (edn-bridge-test-with-chat (conn sent)
    (edn-bridge-test-ask conn "confirm" '(:prompt "Sure?"))
    (edn-bridge-interact-accept)
    (edn-bridge-rpc--dispatch-frame
     conn (list :kind :error :id (plist-get (car sent) :id)
                :op "interaction_respond"
                :error-code "request/interaction-already-answered"
                :error-message "Answered"))
    (should (string-match-p "answered elsewhere" (edn-bridge-test-transcript)))
    (should (zerop (edn-bridge-interact-pending)))
    (should-error (edn-bridge-interact-accept) :type 'user-error)))

(ert-deftest edn-bridge-interact-shows-who-asks-and-what-it-does-not-know ()
  (edn-bridge-test-with-chat (conn sent)
    (edn-bridge-test-ask conn "kind.of-the-future" '(:fact "one")
                                :subagent-id "scout")
    (should (string-match-p "\\[subagent scout\\]" (edn-bridge-test-transcript)))
    (should (string-match-p "fact one" (edn-bridge-test-transcript)))
    (edn-bridge-test-push "Cancel (q)")
    (should (equal (plist-get (car sent) :params)
                   '(:interaction-id "i1" :status "cancelled")))))

;;;; An answer belongs to a question that was seen

(ert-deftest edn-bridge-interact-other-session-is-one-line ()
  (edn-bridge-test-with-chat (conn sent)
    (edn-bridge-test-ask conn "approve" '(:tool "bash" :tool-id "c9"
                                                :command "git push --force")
                         :session-id "s1")
    (should (= 1 (edn-bridge-interact-pending)))
    (edn-bridge-test-event
     conn "interaction/requested" :interaction-id "i2" :kind "approve"
     :session-id "s2" :payload '(:tool "bash" :command "rm -rf build"))
    ;; Also that of a subagent of the other one.
    (edn-bridge-test-event
     conn "interaction/requested" :interaction-id "i3" :kind "approve"
     :session-id "s4" :subagent-id "s4" :parent-session-id "s3"
     :root-session-id "s2" :payload '(:tool "bash" :command "rm -rf dist"))
    (should (= 1 (edn-bridge-interact-pending)))
    (should-not (string-search "rm -rf" (edn-bridge-test-transcript)))
    (should (string-match-p "^The session s2 — waits for an approval  \\[Open\\]$"
                            (edn-bridge-transcript-footer)))
    (goto-char (point-max))
    (edn-bridge-interact-accept)
    (should (equal "i1" (plist-get (plist-get (car sent) :params)
                                   :interaction-id)))
    (dolist (id '("i1" "i2" "i3"))
      (edn-bridge-test-event conn "interaction/answered"
                             :interaction-id id :status "accepted"))
    (should-not (string-search "[Open]" (edn-bridge-transcript-footer)))))

(ert-deftest edn-bridge-interact-moves-with-the-session-of-the-chat ()
  (edn-bridge-test-with-chat (conn _sent)
    (edn-bridge-test-ask conn "confirm" '(:prompt "Mine?"))
    (edn-bridge-test-event
     conn "interaction/requested" :interaction-id "i2" :kind "confirm"
     :session-id "s2" :payload '(:prompt "Theirs?"))
    (setq edn-bridge-chat--session-id "s2")
    (edn-bridge-test-event conn "session/rehydrated" :session-id "s2"
                           :messages [])
    (should (string-search "Theirs?" (edn-bridge-test-transcript)))
    (should-not (string-search "Mine?" (edn-bridge-test-transcript)))
    (should (string-search "The session s1" (edn-bridge-transcript-footer)))))

(ert-deftest edn-bridge-interact-unaimed-key-wants-one-question ()
  (edn-bridge-test-with-chat (conn sent)
    (edn-bridge-test-ask conn "confirm" '(:prompt "Sure?"))
    (edn-bridge-test-event conn "interaction/requested"
                           :interaction-id "i2" :kind "confirm"
                           :session-id "s1" :payload '(:prompt "And?"))
    (goto-char (point-max))
    (dolist (command '(edn-bridge-interact-accept edn-bridge-interact-cancel
                       edn-bridge-interact-accept-for-session
                       edn-bridge-interact-refuse))
      (should-error (funcall command) :type 'user-error))
    (should-not sent)
    (edn-bridge-interact-next)
    (edn-bridge-interact-accept)
    (should (= 1 (length sent)))
    ;; Of a single one, all has to be on the screen.
    (edn-bridge-test-event conn "interaction/answered"
                           :interaction-id "i1" :status "accepted")
    (edn-bridge-test-answer conn sent "interaction_respond" :accepted t)
    (goto-char (point-max))
    (let ((noninteractive nil))
      (should-error (edn-bridge-interact--at-point) :type 'user-error))))

(ert-deftest edn-bridge-interact-early-answer-is-refused ()
  (edn-bridge-test-with-chat (conn sent)
    (let* ((noninteractive nil)
           (now 100.0)
           (edn-bridge-interact--clock (lambda () now)))
      (edn-bridge-test-ask conn "confirm" '(:prompt "Sure?"))
      (edn-bridge-interact-next)
      ;; Not drawn yet, then drawn just now.
      (should-error (edn-bridge-interact-accept) :type 'user-error)
      (run-hook-with-args 'pre-redisplay-functions (selected-window))
      (setq now 100.4)
      (should-error (edn-bridge-interact-accept) :type 'user-error)
      (should-error (push-button) :type 'user-error)
      (should-not sent)
      (setq now 100.6)
      (run-hook-with-args 'pre-redisplay-functions (selected-window))
      (edn-bridge-interact-accept)
      (should (= 1 (length sent))))))

(ert-deftest edn-bridge-interact-tells-what-is-granted ()
  (pcase-dolist
      (`(,kind ,payload ,shown)
       '(("grant-stage-tool"
          (:stage-execution-id "review/1" :attempt 0 :proposal-id "p" :tool "bash"
           :args-digest "d1g357" :args-summary "ls -la" :reason "to see")
          "Grant bash to this stage, once?
  call ls -la\n  reason to see\n  stage review/1\n  attempt 0\n[Grant")
         ("approve-subagent-envelope"
          (:subagent-id "scout" :parent-session-id "s1" :depth 1
           :requested-envelope ["bash" "read"] :prompt-summary "Look around"
           :model (:provider "p" :id "m"))
          "Start a subagent?
  task Look around\n  tools bash, read\n  model p/m\n[Start")))
    (edn-bridge-test-with-chat (conn _sent)
      (edn-bridge-test-ask conn kind payload)
      (should (string-prefix-p shown (edn-bridge-test-transcript))))))

(ert-deftest edn-bridge-interact-rebuilt-transcript-keeps-questions ()
  (edn-bridge-test-with-chat (conn _sent)
    (edn-bridge-test-ask conn "confirm" '(:prompt "Sure?"))
    (edn-bridge-test-event conn "session/rehydrated" :session-id "s1"
                           :messages [])
    (should (string-match-p "Sure\\?\n.*\\[No" (edn-bridge-test-transcript)))
    (should (= 1 (edn-bridge-interact-pending)))))

(ert-deftest edn-bridge-interact-answers-dialogs ()
  (pcase-dolist
      (`(,data ,button ,result)
       '(((:kind "confirm" :title "Sure?") "Yes" t)
         ((:kind :confirm :title "Sure?") "No" :false)
         ((:kind "select" :title "Which?"
                 :options [(:value "a" :label "A") (:value "b" :label "B")])
          "B" "b")))
    (edn-bridge-test-with-chat (conn sent)
      (apply #'edn-bridge-test-event conn "ui/dialog-requested"
             :dialog-id "d1" data)
      (edn-bridge-test-push button)
      (should (equal (plist-get (car sent) :op) "resolve_dialog"))
      (should (equal (plist-get (car sent) :params)
                     (list :dialog-id "d1" :result result))))))

(defun edn-bridge-interact-tests-prompts (function)
  "Call FUNCTION and return the prompts of what it reads."
  (let ((prompts nil))
    (cl-letf (((symbol-function 'read-string)
               (lambda (prompt &rest _) (push prompt prompts) "x"))
              ((symbol-function 'read-passwd)
               (lambda (prompt &rest _) (push prompt prompts)
                 (copy-sequence "x")))
              ((symbol-function 'completing-read)
               (lambda (prompt table &rest _) (push prompt prompts)
                 (car (all-completions "" table))))
              ((symbol-function 'completing-read-multiple)
               (lambda (prompt table &rest _) (push prompt prompts)
                 (list (car (all-completions "" table))))))
      (funcall function))
    prompts))

(ert-deftest edn-bridge-interact-says-of-which-subagent-every-question-is ()
  (let ((asked nil))
    (pcase-dolist
        (`(,kind ,payload ,button)
         '(("ask" (:prompt "Name?") "Answer]")
           ("confirm" (:prompt "Sure?") nil)
           ("select" (:prompt "Which?" :options
                              [(:label "1") (:label "2") (:label "3")
                               (:label "4") (:label "5") (:label "6")
                               (:label "7")])
            "Choose")
           ("select" (:prompt "Which?" :multi t :options [(:label "1")])
            "Choose")
           ("approve" (:tool "bash" :tool-id "c9" :call-summary "ls") "Reject")
           ("auth.device-code" (:provider "p" :url "https://a" :code "X") nil)
           ("auth.password" (:prompt "Key") "Enter")
           ("grant-stage-tool" (:tool "bash" :args-summary "ls") "Deny")
           ("approve-subagent-envelope" (:subagent-id "x" :depth 1) "Deny")))
      (edn-bridge-test-with-chat (conn _sent)
        (let ((titles nil))
          (let ((edn-bridge-interact-functions
                 (list (lambda (title) (push title titles)))))
            (edn-bridge-test-ask conn kind payload :subagent-id "scout"
                                        :session-id "s9")
            (push kind asked)
            (ert-info (kind)
              (should (string-match-p "^\\[subagent scout\\] "
                                      (edn-bridge-test-transcript)))
              (should (string-prefix-p "[subagent scout] " (car titles)))
              (when button
                (let ((prompts (edn-bridge-interact-tests-prompts
                                (lambda ()
                                  (edn-bridge-test-push button)))))
                  (should prompts)
                  (dolist (prompt prompts)
                    (should (string-prefix-p "[subagent scout] " prompt))))))))))
    ;; Every kind of the protocol is among them.
    (dolist (row edn-bridge-interact--kinds)
      (unless (string-match-p "\\`\\(dialog-.*\\|unknown\\)\\'" (car row))
        (should (member (car row) asked)))))
  (dolist (kind '("confirm" "select" "input"))
    (edn-bridge-test-with-chat (conn _sent)
      (edn-bridge-test-event conn "ui/dialog-requested" :dialog-id "d1"
                             :kind kind :title "T" :subagent-id "scout"
                             :options [(:value "a" :label "A")])
      (should (string-match-p "^\\[subagent scout\\] T"
                              (edn-bridge-test-transcript))))))

(ert-deftest edn-bridge-interact-cancels-and-refuses-dialogs ()
  (pcase-dolist (`(,button ,op ,params)
                 '(("No" "resolve_dialog" (:dialog-id "d1" :result :false))
                   ("Cancel" "cancel_dialog" (:dialog-id "d1"))))
    (edn-bridge-test-with-chat (conn sent)
      (edn-bridge-test-event conn "ui/dialog-requested" :dialog-id "d1"
                             :kind "confirm" :title "T" :message "Really?")
      (should (string-match-p "Really" (edn-bridge-test-transcript)))
      (edn-bridge-test-push button)
      (should (equal (plist-get (car sent) :op) op))
      (should (equal (plist-get (car sent) :params) params)))))

(ert-deftest edn-bridge-interact-takes-the-draft-as-an-answer ()
  (edn-bridge-test-with-chat (conn sent)
    (edn-bridge-test-ask conn "ask" '(:prompt "Why?" :multiline t))
    (should-error (edn-bridge-test-push "Answer with") :type 'user-error)
    (edn-bridge-transcript-set-draft "Two\nlines")
    (edn-bridge-test-push "Answer with")
    (should (equal (plist-get (plist-get (car sent) :params) :value)
                   '(:text "Two\nlines")))
    (should (equal (edn-bridge-transcript-draft) ""))))

(ert-deftest edn-bridge-chat-login-with-hidden-code-finishes ()
  (edn-bridge-test-with-chat (conn sent)
    (edn-bridge-test-event conn "command-result" :type "login_start"
                           :message "Open https://a.b/c")
    (let ((given nil))
      (cl-letf (((symbol-function 'read-passwd)
                 (lambda (&rest _) (copy-sequence "c0de")))
                ((symbol-function 'edn-bridge-rpc--send)
                 (lambda (_conn frame)
                   (push frame sent)
                   (setq given (edn-bridge-edn-print-string
                                (plist-get frame :params))))))
        (edn-bridge-test-push "Enter it"))
      (should (equal given "{:input \"c0de\"}"))
      (edn-bridge-test-answer conn sent "login_complete"
                              :provider '(:id "p" :name "Provider")
                              :logged-in t))
    (let ((text (edn-bridge-test-transcript)))
      (should (string-match-p "Logged in to Provider" text))
      (should-not (string-match-p "c0de" text)))))

;;;; What cannot be seen

(defun edn-bridge-interact-tests-displayed ()
  "Return the transcript as it is displayed: with `display' strings."
  (let ((text "")
        (place (point-min)))
    (while (< place (edn-bridge-transcript-end))
      (let ((shown (get-text-property place 'display)))
        (setq text (concat text (if (stringp shown)
                                    shown
                                  (string (char-after place))))
              place (1+ place))))
    text))

(ert-deftest edn-bridge-interact-question-shows-what-is-hidden ()
  (dolist (char '(#x202E #x2066 #x2069 #x200B #x200D #x200F #xFE0F #xE000
                  #xE0041 #x3164 #x2028 #xAD #xFFFC))
    (let ((hidden (format "a%cb" char))
          (code (format "a\\u{%X}b" char)))
      (pcase-dolist
          (`(,kind . ,payload)
           `(("approve" :tool "bash" :command ,hidden)
             ("approve" :tool "bash" :call-summary ,hidden)
             ("approve" :tool ,hidden :command "x")
             ("approve" :tool "edit" :diff ,(format "@@ -1 +1 @@\n+%s\n" hidden))
             ("approve" :tool "write" :paths [,hidden])
             ("approve" :tool "bash" :command "x" :suggested-rule ,hidden)
             ("ask" :prompt ,hidden)
             ("select" :prompt "p" :options [(:label ,hidden)])
             ("select" :prompt "p"
              :options [(:label "x" :description ,hidden)])
             ("grant-stage-tool" :tool "bash" :args-summary ,hidden)
             ("approve-subagent-envelope" :subagent-id "s"
              :prompt-summary ,hidden :requested-envelope [,hidden])
             ("later" :fact ,hidden)))
        (edn-bridge-test-with-chat (conn _sent)
          (edn-bridge-test-ask conn kind payload)
          (ert-info ((format "%s: %S" kind payload))
            (let ((text (edn-bridge-interact-tests-displayed)))
              (should (string-search code text))
              (should-not (seq-contains-p text char)))))))))

(ert-deftest edn-bridge-interact-question-fakes-no-button ()
  (dolist (payload
           '((:tool "write" :paths ["notes.txt\n  [Allow once (y)]\n\n  README"])
             (:tool "bash" :command "true\n[Allow once (y)] [Cancel]\n")
             (:tool "a\n[Allow once (y)]" :command "x")
             (:tool "bash" :call-summary "x\n[Allow once (y)]")
             (:tool "edit" :diff "@@ -1 +1 @@\n+x\n[Allow once (y)]\n")
             (:tool "bash" :command "x" :suggested-rule "r\n[Allow once (y)]")
             (:tool "bash" :command "x" :warnings ["w\n[Allow once (y)]"])))
    (edn-bridge-test-with-chat (conn _sent)
      (edn-bridge-test-ask conn "approve" payload)
      (ert-info ((format "%S" payload))
        (goto-char (point-min))
        (let ((buttons nil))
          (while (re-search-forward "^[ \t]*\\[" (edn-bridge-transcript-end) t)
            (let ((bar (get-text-property (line-beginning-position)
                                          'line-prefix))
                  (button (button-at (1- (point)))))
              ;; Either a button, or what stands behind the bar.
              (should (eq (null bar) (and button t)))
              (when button
                (should (eq (get-text-property (1- (point)) 'face)
                            'edn-bridge-interact-button))
                (push (button-label button) buttons))))
          (should (equal buttons '("[Allow once (y)]"))))))))

(ert-deftest edn-bridge-interact-question-shows-warnings ()
  (edn-bridge-test-with-chat (conn _sent)
    (edn-bridge-test-ask
     conn "approve"
     '(:tool "bash" :command "x"
       :warnings ["It has hidden characters." (:text "It runs twice.") 7]))
    (should (string-match-p
             "x\n! It has hidden characters\\.\n! It runs twice\\.\n\\[Allow once"
             (edn-bridge-test-transcript)))))

(ert-deftest edn-bridge-interact-cut-diff-offers-the-whole ()
  (edn-bridge-test-with-chat (conn sent)
    (edn-bridge-test-ask conn "approve"
                         '(:tool "write" :diff "@@ -0,0 +1 @@\n+a\n"
                           :diff-handle "h1"))
    (save-window-excursion
      (edn-bridge-test-push "The whole diff")
      (let ((buffer (window-buffer)))
        (should (equal (plist-get (car sent) :op) "read_output"))
        (should (equal (plist-get (plist-get (car sent) :params) :handle) "h1"))
        (edn-bridge-test-answer conn sent "read_output" :text "@@ -0,0 +1,2 @@\n+a\n+evil\n"
                                :offset 0 :size 25)
        (with-current-buffer buffer
          (should (derived-mode-p 'diff-mode))
          (should (string-search "+evil" (buffer-string)))
          (kill-buffer))))))

(ert-deftest edn-bridge-interact-rest-shows-what-is-hidden ()
  (edn-bridge-test-with-chat (conn _sent)
    (let ((hidden (format "a%cb" #x202E)))
      (edn-bridge-test-event conn "tool/start" :session-id "s1" :tool-id "c1"
                             :tool-name "bash" :call-summary hidden)
      (edn-bridge-test-event conn "tool/result" :session-id "s1" :tool-id "c1"
                             :tool-name "bash" :call-summary hidden
                             :is-error :false :result-text hidden)
      (edn-bridge-tools-toggle)
      (edn-bridge-test-event conn "assistant/message" :session-id "s1"
                             :role "assistant"
                             :content (vector (list :type :text :text hidden)))
      (edn-bridge-chat-notice hidden)
      (should (= 5 (length (split-string (edn-bridge-interact-tests-displayed)
                                         "a\\\\u{202E}b"))))
      (edn-bridge-test-event conn "session/updated" :session-id "s1"
                             :session-name hidden :mode hidden)
      (edn-bridge-test-event conn "footer/updated" :session-id "s1"
                             :path-line hidden)
      (dolist (text (list (edn-bridge-chat--header-line)
                          (edn-bridge-transcript-footer)
                          (edn-bridge-sessions-label (list :name hidden))
                          (edn-bridge-complete--note hidden)))
        (should (string-search "a\\u{202E}b" text))
        (should-not (string-search hidden text)))
      ;; What holds an emoji together is no trick.
      (edn-bridge-chat-notice "🏳️‍🌈 fine")
      (should (string-search "🏳️‍🌈 fine"
                             (edn-bridge-interact-tests-displayed))))))

;;;; Proposals that are edited

(defmacro edn-bridge-interact-tests-with-proposal (spec &rest body)
  "Run BODY in a chat that is asked about a change of the file a.txt.
SPEC is (CONN SENT OLD NEW &rest MORE): its text is OLD and would be NEW."
  (declare (indent 1) (debug t))
  (pcase-let ((`(,conn ,sent ,old ,new . ,more) spec))
    `(let* ((folder (file-name-as-directory (make-temp-file "edn-prop" t)))
            (file (expand-file-name "a.txt" folder)))
       (write-region ,old nil file nil 'quiet)
       (unwind-protect
           (save-window-excursion
             (edn-bridge-test-with-chat (,conn ,sent)
               (setq default-directory folder)
               (edn-bridge-test-ask
                ,conn "approve"
                (append
                 (list :tool "edit" :paths (vector file)
                       :diff "@@ -1 +1 @@\n-one\n+ONE\n"
                       :proposal
                       (list :path file :hunks 2
                             :base-sha256 (secure-hash 'sha256 ,old)
                             :content ,new))
                 (list ,@more)))
               ,@body))
         (dolist (buffer (buffer-list))
           (when (string-match-p ": \\(?:now\\|proposed\\)\\*" (buffer-name buffer))
             (with-current-buffer buffer
               (set-buffer-modified-p nil)
               (kill-buffer))))
         (delete-directory folder t)))))

(defun edn-bridge-interact-tests-proposed ()
  "Return the buffer with a proposal."
  (seq-find (lambda (buffer)
              (string-match-p ": proposed\\*" (buffer-name buffer)))
            (buffer-list)))

(defun edn-bridge-interact-tests-value (sent)
  "Return the value of the answer that was SENT last."
  (let ((frame (car sent)))
    (should (equal (plist-get frame :op) "interaction_respond"))
    (plist-get (plist-get frame :params) :value)))

(defun edn-bridge-interact-tests-rest ()
  "Take what is proposed in all hunks that are left."
  (goto-char (point-min))
  (while (re-search-forward smerge-begin-re nil t)
    (smerge-match-conflict)
    (smerge-keep-lower)))

(ert-deftest edn-bridge-interact-proposal-is-merged-by-hunks ()
  (edn-bridge-interact-tests-with-proposal
      (conn sent "one\ntwo\nthree\nfour\n" "ONE\ntwo\nTHREE\nfour")
    (let ((chat (current-buffer)))
      (edn-bridge-test-push "Choose hunks")
      (with-current-buffer (edn-bridge-interact-tests-proposed)
        (should (bound-and-true-p smerge-mode))
        (should (string-search "<<<<<<< now\none\n=======\nONE\n>>>>>>> proposed\n"
                               (buffer-string)))
        ;; All is to be decided about first.
        (should-error (edn-bridge-ediff-accept) :type 'user-error)
        (goto-char (point-min))
        (re-search-forward smerge-begin-re)
        (smerge-match-conflict)
        (smerge-keep-upper)
        (edn-bridge-interact-tests-rest)
        (should (equal (buffer-string) "one\ntwo\nTHREE\nfour\n"))
        (edn-bridge-ediff-accept))
      (with-current-buffer chat
        (should (equal (edn-bridge-interact-tests-value sent)
                       '(:outcome "approve" :scope "once"
                         :content "one\ntwo\nTHREE\nfour")))
        (edn-bridge-test-answer conn sent "interaction_respond" :accepted t)
        (should (string-search "→ Allow once, as edited"
                               (edn-bridge-test-transcript)))
        (should-not (edn-bridge-interact-tests-proposed))))))

(ert-deftest edn-bridge-interact-proposal-begins-at-the-first-hunk ()
  (pcase-dolist (`(,old ,new) '(("one\ntwo\nthree\n" "ONE\ntwo\nTHREE\n")
                                ("zero\none\ntwo\n" "zero\nONE\ntwo\n")))
    (edn-bridge-interact-tests-with-proposal (conn sent old new)
      (edn-bridge-test-push "Choose hunks")
      (with-current-buffer (edn-bridge-interact-tests-proposed)
        (should (looking-at-p "<<<<<<< now\none\n"))
        (smerge-keep-lower)
        (should (string-search "ONE\ntwo\n" (buffer-string)))))))

(ert-deftest edn-bridge-interact-proposal-shows-the-first-hunk-at-the-top ()
  (let ((lines (mapconcat #'number-to-string (number-sequence 1 500) "\n")))
    (edn-bridge-interact-tests-with-proposal
        (conn sent lines (string-replace "\n250\n" "\nchanged\n" lines))
      (edn-bridge-test-push "Choose hunks")
      (with-current-buffer (edn-bridge-interact-tests-proposed)
        (should (looking-at-p "<<<<<<< now\n250\n"))
        (should (<= (count-lines (window-start) (point)) 2))))))

(defmacro edn-bridge-interact-tests-beside (&rest body)
  "Run BODY with this chat in the selected window, with another above it.
Point is at the chat's beginning."
  (declare (debug t))
  `(save-window-excursion
     (delete-other-windows)
     (let ((chat (current-buffer)))
       (select-window (split-window))
       (switch-to-buffer chat)
       (goto-char (point-min))
       ,@body)))

(defun edn-bridge-interact-tests-back-p (chat windows)
  "Check that WINDOWS are shown again, and CHAT is selected, at the draft."
  (should (equal (mapcar #'window-buffer
                         (window-list nil 'nomini (frame-first-window)))
                 windows))
  (should (eq (window-buffer) chat))
  (with-current-buffer chat
    (should (= (window-point) (point-max)))
    (should (< (count-lines (window-start) (point-max))
               (window-body-height)))))

(ert-deftest edn-bridge-interact-proposal-leads-back-to-the-draft ()
  (dolist (label '("Choose hunks" "Edit with Ediff"))
    (dolist (command '(edn-bridge-ediff-accept edn-bridge-ediff-leave))
      (edn-bridge-interact-tests-with-proposal (conn sent "one\n" "ONE\n")
        (edn-bridge-interact-tests-beside
         (let ((windows (mapcar #'window-buffer
                                (window-list nil 'nomini (frame-first-window)))))
           (cl-letf (((symbol-function 'ediff-buffers)
                      (lambda (now proposed hooks)
                        (delete-other-windows)
                        (switch-to-buffer now)
                        (pop-to-buffer proposed)
                        (with-temp-buffer
                          (mapc #'funcall hooks)))))
             (edn-bridge-test-push label))
           (with-current-buffer (edn-bridge-interact-tests-proposed)
             (edn-bridge-interact-tests-rest)
             (funcall command))
           (edn-bridge-interact-tests-back-p chat windows)))))))

(defvar ediff-window-setup-function)
(declare-function ediff-setup-windows-plain "ediff-wind")

(ert-deftest edn-bridge-interact-proposal-is-edited-from-a-side-window ()
  (require 'ediff)
  (edn-bridge-interact-tests-with-proposal (conn sent "one\n" "ONE\n")
    (save-window-excursion
      (delete-other-windows)
      (switch-to-buffer "*scratch*")
      (let* ((chat (seq-find (lambda (buffer)
                               (string-prefix-p "*edn-bridge: test*"
                                                (buffer-name buffer)))
                             (buffer-list)))
             (ediff-window-setup-function #'ediff-setup-windows-plain)
             (inhibit-message t))
        (dolist (side '(left right bottom))
          (delete-other-windows)
          (let ((window (display-buffer-in-side-window
                         chat (list (cons 'side side)))))
            (select-window window)
            (set-buffer chat)
            (edn-bridge-test-push "Edit with Ediff")
            (should-not (get-buffer-window chat))
            (with-current-buffer (edn-bridge-interact-tests-proposed)
              (should (get-buffer-window))
              (edn-bridge-ediff-leave))
            (should (eq (window-buffer) chat))
            (should (eq (window-parameter nil 'window-side) side))
            (should-not (edn-bridge-interact-tests-proposed))
            (should-not (get-buffer "*Ediff Control Panel*"))
            (delete-window)))))))

(ert-deftest edn-bridge-interact-proposal-leaves-nothing-if-ediff-fails ()
  (edn-bridge-interact-tests-with-proposal (conn sent "one\n" "ONE\n")
    (edn-bridge-interact-tests-beside
     (let ((before (buffer-list))
           (windows (mapcar #'window-buffer
                            (window-list nil 'nomini (frame-first-window)))))
       (cl-letf (((symbol-function 'ediff-buffers)
                  (lambda (&rest _)
                    (generate-new-buffer "*Ediff Control Panel*")
                    (delete-other-windows)
                    (error "It cannot"))))
         (should-error (edn-bridge-test-push "Edit with Ediff")))
       (should-not (seq-difference (buffer-list) before))
       (edn-bridge-interact-tests-back-p chat windows)))))

(ert-deftest edn-bridge-interact-proposal-is-edited-with-ediff ()
  (edn-bridge-interact-tests-with-proposal
      (conn sent "one\ntwo\n" "ONE\ntwo\n")
    (let ((chat (current-buffer))
          (shown nil))
      (cl-letf (((symbol-function 'ediff-buffers)
                 (lambda (now proposed &rest _) (setq shown (list now proposed)))))
        (edn-bridge-test-push "Edit with Ediff"))
      (should (equal (with-current-buffer (car shown) (buffer-string))
                     "one\ntwo\n"))
      (with-current-buffer (nth 1 shown)
        (should (equal (buffer-string) "ONE\ntwo\n"))
        (should (eq (key-binding (kbd "C-c C-c")) #'edn-bridge-ediff-accept))
        (erase-buffer)
        (insert "one\ntwo\n")
        ;; Nothing of it is left: that is a rejection.
        (should-error (edn-bridge-ediff-accept) :type 'user-error)
        (goto-char (point-max))
        (insert "three\n")
        (edn-bridge-ediff-accept))
      (with-current-buffer chat
        (should (equal (plist-get (edn-bridge-interact-tests-value sent)
                                  :content)
                       "one\ntwo\nthree\n"))
        ;; Where it is refused, what was edited is still there.
        (edn-bridge-rpc--dispatch-frame
         conn (list :kind :error :id (plist-get (car sent) :id)
                    :op "interaction_respond" :error-code "request/invalid-params"
                    :error-message "Too large"))
        (should (buffer-live-p (nth 1 shown)))
        (should (= (edn-bridge-interact-pending) 1))))))

;; Batch Emacs has no font-lock.
(defmacro edn-bridge-interact-tests-in-colour (&rest body)
  "Run BODY as an Emacs that is not in batch mode would."
  `(let ((noninteractive nil)
         (font-lock-global-modes nil)
         (emacs-lisp-mode-hook (list (lambda () (error "It was run")))))
     ,@body))

(ert-deftest edn-bridge-interact-proposal-is-in-colour ()
  (let ((file (make-temp-file "edn-prop" nil ".el" "(defun f ())\n"))
        (smerge nil))
    (unwind-protect
        (let ((default-directory (file-name-directory file)))
          (edn-bridge-interact-tests-in-colour
           (with-current-buffer
               (edn-bridge-ediff--buffer "now" file "(defun f ())\n"
                                         #'emacs-lisp-mode)
             (unwind-protect
                 (progn
                   (font-lock-ensure)
                   (goto-char (point-min))
                   (search-forward "defun")
                   (should (eq 'font-lock-keyword-face
                               (get-text-property (1- (point)) 'face))))
               (kill-buffer)))
           (edn-bridge-test-with-chat (_conn _sent)
             (save-window-excursion
               (setq smerge (edn-bridge-ediff-merge
                             file
                             (with-temp-buffer
                               (insert-file-contents-literally file)
                               (secure-hash 'sha256 (current-buffer)))
                             "(defun g ())\n" #'ignore)))
             (with-current-buffer smerge
               (font-lock-ensure)
               (goto-char (point-min))
               (should (memq 'smerge-markers
                             (ensure-list (get-text-property (point) 'face))))
               (set-buffer-modified-p nil)
               (kill-buffer)))))
      (delete-file file))))

(ert-deftest edn-bridge-interact-proposal-opens-by-itself-if-wanted ()
  (dolist (edn-bridge-edit-opens '(nil ediff smerge))
    (edn-bridge-test-with-chat (conn _sent)
      (let ((opened nil)
            (edn-bridge-interact--open-seconds 0))
        (cl-letf (((symbol-function 'edn-bridge-ediff-edit)
                   (lambda (path &rest _) (setq opened (list 'ediff path))))
                  ((symbol-function 'edn-bridge-ediff-merge)
                   (lambda (path &rest _) (setq opened (list 'smerge path)))))
          (save-window-excursion
            (switch-to-buffer (current-buffer))
            (let ((timers timer-idle-list))
              (edn-bridge-test-ask conn "approve"
                                   '(:tool "edit" :diff "@@ -1 +1 @@\n-a\n+b\n"
                                     :proposal (:path "a" :content "b\n")))
              ;; Batch Emacs is never idle.
              (dolist (timer (seq-difference timer-idle-list timers))
                (timer-event-handler timer)))
            (should (equal opened (and edn-bridge-edit-opens
                                       (list edn-bridge-edit-opens "a"))))))))))

(ert-deftest edn-bridge-interact-proposal-as-it-is-is-no-edit ()
  (edn-bridge-interact-tests-with-proposal
      (conn sent "one\n" "ONE\n")
    (let ((chat (current-buffer)))
      (cl-letf (((symbol-function 'ediff-buffers) #'ignore)
                ((symbol-function 'y-or-n-p) (lambda (_) t)))
        (edn-bridge-test-push "Edit with Ediff")
        (edn-bridge-ediff--on-quit nil (edn-bridge-interact-tests-proposed)))
      (with-current-buffer chat
        (should (equal (edn-bridge-interact-tests-value sent)
                       '(:outcome "approve" :scope "once")))))))

(ert-deftest edn-bridge-interact-proposal-for-another-file-is-refused ()
  (edn-bridge-interact-tests-with-proposal (conn sent "one\n" "ONE\n")
    (write-region "newer\n" nil file nil 'quiet)
    (should-error (edn-bridge-test-push "Choose hunks") :type 'user-error)
    (should-not sent)
    ;; A buffer with unsaved changes may be what it was made for.
    (with-current-buffer (find-file-noselect file)
      (erase-buffer)
      (insert "one\n"))
    (edn-bridge-test-push "Choose hunks")
    (should (edn-bridge-interact-tests-proposed))
    (with-current-buffer (get-file-buffer file)
      (set-buffer-modified-p nil)
      (kill-buffer))))

(ert-deftest edn-bridge-interact-proposal-keeps-an-edit-in-vain ()
  (edn-bridge-interact-tests-with-proposal
      (conn sent "one\n" "ONE\n")
    (cl-letf (((symbol-function 'ediff-buffers) #'ignore)
              ((symbol-function 'y-or-n-p) (lambda (_) t)))
      (edn-bridge-test-push "Edit with Ediff")
      (let ((proposed (edn-bridge-interact-tests-proposed)))
        (with-current-buffer proposed
          (erase-buffer)
          (insert "mine\n"))
        (write-region "newer\n" nil file nil 'quiet)
        (edn-bridge-ediff--on-quit nil proposed)
        (should-not sent)
        (should (get-buffer-window proposed))
        (with-current-buffer proposed
          (should (equal (buffer-string) "mine\n")))
        ;; It is accepted once the file is again what it was made for.
        (write-region "one\n" nil file nil 'quiet)
        (with-current-buffer proposed
          (edn-bridge-ediff-accept))
        (should (equal (edn-bridge-interact-tests-value sent)
                       '(:outcome "approve" :scope "once"
                         :content "mine\n")))))))

(ert-deftest edn-bridge-interact-proposal-is-kept-until-it-is-written ()
  (pcase-dolist (`(,is-error ,details ,kept)
                 '((:false (:edited t) nil)
                   (t nil t)
                   ;; Somebody else has answered, and the proposal is written.
                   (:false (:path "a.txt") t)))
    (edn-bridge-interact-tests-with-proposal
        (conn sent "one\n" "ONE\n" :tool-id "c1")
      (cl-letf (((symbol-function 'ediff-buffers) #'ignore))
        (edn-bridge-test-push "Edit with Ediff"))
      (with-current-buffer (edn-bridge-interact-tests-proposed)
        (insert "mine ")
        (edn-bridge-ediff-accept))
      (edn-bridge-test-answer conn sent "interaction_respond" :accepted t)
      (should (edn-bridge-interact-tests-proposed))
      (edn-bridge-test-event conn "tool/result" :session-id "s1" :tool-id "c1"
                             :tool-name "edit" :call-summary "edit a.txt"
                             :result-text "" :content [] :is-error is-error
                             :details details)
      (should (eq (and (edn-bridge-interact-tests-proposed) t) kept))
      (should (eq (and (string-search "Your text for the file was not written"
                                      (edn-bridge-test-transcript))
                       t)
                  kept)))))

(ert-deftest edn-bridge-interact-proposal-of-a-new-file-is-for-none ()
  (edn-bridge-interact-tests-with-proposal
      (conn sent "one\n" "ONE\n")
    (should-error (edn-bridge-ediff-check file nil) :type 'user-error)
    (delete-file file)
    (edn-bridge-ediff-check file nil)
    (write-region "" nil file nil 'quiet)))

(ert-deftest edn-bridge-interact-proposal-that-is-long-is-fetched ()
  (edn-bridge-interact-tests-with-proposal
      (conn sent "one\n" nil)
    (edn-bridge-test-event conn "interaction/answered" :interaction-id "i1"
                           :status "cancelled")
    (edn-bridge-test-ask
     conn "approve"
     (list :tool "edit" :paths (vector file) :diff "@@ -1 +1 @@\n-one\n+ONE\n"
           :proposal (list :path file :base-sha256 (secure-hash 'sha256 "one\n")
                           :handle "o-1" :size 8)))
    (goto-char (point-max))
    (search-backward "[Choose hunks")
    (push-button (1+ (point)))
    (should (equal (plist-get (car sent) :params)
                   '(:handle "o-1" :offset 0 :limit 262144)))
    (edn-bridge-test-answer conn sent "read_output" :offset 0 :size 8
                            :text "ONE\n")
    (edn-bridge-test-answer conn sent "read_output" :offset 4 :size 8
                            :text "TWO\n")
    ;; Not while frames are dispatched, where nothing can be asked.
    (should-not (edn-bridge-interact-tests-proposed))
    (with-current-buffer
        (edn-bridge-test-wait (edn-bridge-interact-tests-proposed))
      (edn-bridge-interact-tests-rest)
      (should (equal (buffer-string) "ONE\nTWO\n")))))

(ert-deftest edn-bridge-interact-proposal-of-a-subagent-is-its-output ()
  (edn-bridge-interact-tests-with-proposal
      (conn sent "one\n" nil)
    (edn-bridge-test-event conn "interaction/answered" :interaction-id "i1"
                           :status "cancelled")
    (edn-bridge-test-event
     conn "interaction/requested" :interaction-id "i2" :kind "approve"
     :correlation-id "t1" :session-id "s2" :subagent-id "s2"
     :parent-session-id "s1" :root-session-id "s1"
     :payload (list :tool "edit" :paths (vector file)
                    :diff "@@ -1 +1 @@\n-one\n+ONE\n" :diff-handle "o-2"
                    :proposal (list :path file :handle "o-1" :size 8)))
    (dolist (label '("[Choose hunks" "[The whole diff"))
      (goto-char (point-max))
      (search-backward label)
      (save-current-buffer
        (push-button (1+ (point))))
      (should (equal (plist-get (plist-get (car sent) :params) :session-id)
                     "s2")))))

(provide 'edn-bridge-interact-tests)

;;; edn-bridge-interact-tests.el ends here
